/* Limits of the machine: bytes that threads read, or read and write, and multiply-adds that they execute per second.
 *
 * REAL is float or double. Every thread works repeatedly on its own slice. The length of a slice is a multiple of STEP
 * values.
 */
#include <omp.h>
#include <stdint.h>

#ifdef __AVX512F__
enum { BYTES = 64 };
#else
enum { BYTES = 32 };
#endif
typedef REAL vector __attribute__((vector_size(BYTES), aligned(BYTES)));
enum { LANES = BYTES / sizeof(REAL), N = 8, CHAINS = 12 };

#define AGAIN __asm__ volatile("" ::: "memory") /* the compiler must not merge rounds */

REAL read_all(const REAL *a, int64_t per_thread, int64_t rounds, int n_threads)
{
    REAL total = 0;
#pragma omp parallel num_threads(n_threads) reduction(+ : total)
    {
        const vector *mine = (const vector *)(a + omp_get_thread_num() * per_thread);
        vector sums[N] = {0};
        for (int64_t round = 0; round < rounds; round++) {
            for (int64_t p = 0; p < per_thread / LANES; p += N)
                for (int v = 0; v < N; v++) sums[v] += mine[p + v];
            AGAIN;
        }
        for (int v = 1; v < N; v++) sums[0] += sums[v];
        for (int lane = 0; lane < LANES; lane++) total += sums[0][lane];
    }
    return total;
}

/* a = b + s c */
void triad(REAL *a, const REAL *b, const REAL *c, REAL s, int64_t per_thread, int64_t rounds, int n_threads)
{
#pragma omp parallel num_threads(n_threads)
    {
        const int64_t first = omp_get_thread_num() * per_thread;
        vector *to = (vector *)(a + first);
        const vector *from = (const vector *)(b + first), *other = (const vector *)(c + first);
        for (int64_t round = 0; round < rounds; round++) {
            for (int64_t p = 0; p < per_thread / LANES; p++) to[p] = from[p] + s * other[p];
            AGAIN;
        }
    }
}

/* Run CHAINS independent multiply-adds of vectors per round and thread; return the values of one round and thread. */
int multiply_add(REAL *result, REAL x, REAL y, int64_t rounds, int n_threads)
{
#pragma omp parallel num_threads(n_threads)
    {
        vector sums[CHAINS], by = x - (vector){0}, plus = y - (vector){0};
        for (int v = 0; v < CHAINS; v++) sums[v] = (REAL)v - (vector){0};
        for (int64_t round = 0; round < rounds; round++)
            for (int v = 0; v < CHAINS; v++) sums[v] = sums[v] * by + plus;
        for (int v = 1; v < CHAINS; v++) sums[0] += sums[v];
#pragma omp atomic
        result[0] += sums[0][0];
    }
    return CHAINS * LANES;
}
