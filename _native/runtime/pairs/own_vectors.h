/* Vectors of products of two value types, of which each thread converts a copy for itself.
 *
 * Rows of A read elements from all of x. With a single converted copy, a thread fetches the elements that other threads
 * have just written out of their cores' caches: 60 us for 30,000 elements on two cores, where converting takes 5. */
#ifndef ASP_OWN_VECTORS_H
#define ASP_OWN_VECTORS_H

#include "kernels.h"

/* A vector of n elements, and memory for one copy per thread. */
typedef struct {
    const void *stored;
    char *copies;
    int64_t n, copy_bytes;
    asp_widen widen;
    _Atomic int n_taken;
    uint64_t number; /* of the product, unique in the process */
} asp_own_vector;

/* Prepare the copies of a product; the calling thread has the first copy of every product, which its core may hold. */
void asp_own_begin(asp_own_vector *x);
/* Return the calling thread's copy, converted now if it has none. */
const void *asp_own_copy(asp_own_vector *x);

#endif
