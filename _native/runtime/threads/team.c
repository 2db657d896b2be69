/* Jobs on a host's OpenMP threads (team.h). The functions are those of the OpenMP library that the host has loaded,
 * which may differ from the one linked with this runtime. Both libgomp and LLVM's library export `GOMP_parallel`. */
#include "common.h"

#include "pool_api.h"

#if ASP_HAVE_THREADS

#include <pthread.h>
#include <stdatomic.h>

#include "team.h"

typedef void (*parallel_function)(void (*)(void *), void *, unsigned, unsigned);
typedef int (*number_function)(void);

/* Addresses of the host's GOMP_parallel and omp_get_thread_num; 0: helpers of the pool are used. */
static _Atomic uintptr_t parallel, thread_number;

/* Installed here too, because the pool's own fork handler is installed at its first job, which may come only after the
 * fork. */
static pthread_once_t fork_handler = PTHREAD_ONCE_INIT;
static void install_fork_handler(void) { pthread_atfork(NULL, NULL, asp_forget_team); }

static void set_team(uintptr_t gomp_parallel, uintptr_t omp_get_thread_num)
{
    atomic_store(&thread_number, omp_get_thread_num);
    atomic_store(&parallel, omp_get_thread_num ? gomp_parallel : 0);
}

void asp_pool_team(uintptr_t gomp_parallel, uintptr_t omp_get_thread_num)
{
    pthread_once(&fork_handler, install_fork_handler);
    set_team(gomp_parallel, omp_get_thread_num);
}

int asp_has_team(void) { return atomic_load_explicit(&parallel, memory_order_relaxed) != 0; }

void asp_forget_team(void) { set_team(0, 0); }

/* Adapter with the signature that GOMP_parallel calls: run *work, a void (*)(int), with this thread's number. */
static void run_one(void *work)
{
    const number_function number = (number_function)atomic_load_explicit(&thread_number, memory_order_relaxed);
    (*(void (**)(int))work)(number ? number() : 0);
}

void asp_run_in_team(void (*work)(int), int n_threads)
{
    /* acquire: thread_number was stored before */
    const parallel_function run = (parallel_function)atomic_load_explicit(&parallel, memory_order_acquire);
    if (run)
        run(run_one, &work, (unsigned)n_threads, 0);
    else
        work(0); /* another thread has just switched back to helpers: the caller processes every share */
}

#else
void asp_pool_team(uintptr_t gomp_parallel, uintptr_t omp_get_thread_num) { (void)gomp_parallel, (void)omp_get_thread_num; }
#endif
