#include "own_vectors.h"

static _Atomic uint64_t n_products;
/* Copy of this thread for the product of that number. */
static _Thread_local struct {
    uint64_t number;
    const void *copy; /* NULL: not converted yet */
} mine;

void asp_own_begin(asp_own_vector *x)
{
    x->number = atomic_fetch_add_explicit(&n_products, 1, memory_order_relaxed) + 1;
    atomic_init(&x->n_taken, 1);
    mine.number = x->number;
    mine.copy = NULL;
}

const void *asp_own_copy(asp_own_vector *x)
{
    if (mine.number == x->number && mine.copy) return mine.copy;
    const int place = mine.number == x->number ? 0 : atomic_fetch_add_explicit(&x->n_taken, 1, memory_order_relaxed);
    char *copy = x->copies + place * x->copy_bytes;
    x->widen(copy, x->stored, x->n);
    mine.number = x->number;
    return mine.copy = copy;
}
