/* Work that is divided into chunks which depend on earlier ones. */
#ifndef ASP_CLAIMS_H
#define ASP_CLAIMS_H

#include "common.h"

#include <stdatomic.h>
#if ASP_HAVE_THREADS
#include <sched.h>
#endif

#include "pool_api.h"
#include "triangular_api.h"

/* Threads claim chunks in ascending order, whatever ranges the pool gives them. The first chunk that is claimed and not
 * finished can therefore always proceed, and waiting for an earlier chunk ends. */
typedef struct {
    _Alignas(ASP_OWN_BYTES) _Atomic int64_t next;
} asp_claims;

enum { ASP_TURNS_AWAKE = 2000 }; /* turns of waiting before the core is offered to other threads */

ASP_INLINE void asp_pause(int turn)
{
#if ASP_HAVE_THREADS
    if (turn > ASP_TURNS_AWAKE) {
        sched_yield();
        return;
    }
#endif
#if ASP_X86
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
    (void)turn;
}

/* Runs of rows: run(context, first, last) eliminates the rows at the positions [first, last) of the order. */
typedef void (*asp_row_run)(void *context, int64_t first, int64_t last);

/* Run all rows of a triangle in stages if it has a schedule, else in one piece. ASP_OK, ASP_NO_MEMORY. */
int asp_run_stages(const asp_triangle *triangle, asp_row_run run, void *context, double serial_ns);

#endif
