/* The number of threads this process should use: OpenMP's setting, bounded by the CPU-time quota of the process's
 * control group.
 *
 * A quota (`docker run --cpus=2`, a pod's limit, systemd's CPUQuota) is not visible as affinity. A process of 64
 * threads under a quota of two CPUs uses up its quota in 1/32 of each period and is stopped for the rest.
 */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#include "hooks.h"
#include "pool_api.h"
#include "waiting.h"

#if ASP_HAVE_THREADS
#include <pthread.h>
#include <unistd.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

/* Read the first line of the file root/group/name; return whether that succeeded. */
static int read_line(char *line, int size, const char *root, const char *group, const char *name)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s%s/%s", root, group, name) >= (int)sizeof path) return 0;
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    const int found = fgets(line, size, file) != NULL;
    fclose(file);
    return found;
}

/* Return quota / period rounded to whole CPUs, at least 1; 0 means no limit. */
static int cpus_of(double quota, double period)
{
    if (!(quota > 0) || !(period > 0)) return 0;
    const double cpus = quota / period;
    return cpus < 1 ? 1 : cpus > INT_MAX ? 0 : (int)(cpus + 0.5);
}

/* Return the limit of one control group in CPUs, from version 2's file or version 1's; 0 means no limit. */
static int limit_of(const char *root, const char *group)
{
    char line[128];
    if (read_line(line, sizeof line, root, group, "cpu.max")) {
        double quota, period;
        return sscanf(line, "%lf %lf", &quota, &period) == 2 ? cpus_of(quota, period) : 0; /* else "max" */
    }
    if (!read_line(line, sizeof line, root, group, "cpu.cfs_quota_us")) return 0;
    const double quota = atof(line);
    return read_line(line, sizeof line, root, group, "cpu.cfs_period_us") ? cpus_of(quota, atof(line)) : 0;
}

/* Return the smallest limit of a group and its ancestors, 0 without a limit. Overwrites `group`. */
static int least_limit(const char *root, char *group)
{
    int least = 0;
    for (;;) {
        const int found = limit_of(root, group);
        if (found && (!least || found < least)) least = found;
        char *slash = strrchr(group, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

int asp_cgroup_cpus(const char *membership, const char *root)
{
    FILE *file = fopen(membership, "r");
    char line[PATH_MAX + 64], version_1[64];
    int least = 0;
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) { /* "0::/group" or "4:cpu,cpuacct:/group" */
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0, controllers++;
        group[strcspn(group, "\n")] = 0;
        if (!strcmp(group, "/")) *group = 0; /* else the files of the root would be read twice */
        const int is_version_2 = !*controllers;
        if (!is_version_2 && strcmp(controllers, "cpu") && strcmp(controllers, "cpu,cpuacct")) continue;
        if (!is_version_2) snprintf(version_1, sizeof version_1, "/%s", controllers);
        char base[PATH_MAX];
        if (snprintf(base, sizeof base, "%s%s", root, is_version_2 ? "" : version_1) >= (int)sizeof base) continue;
        const int found = least_limit(base, group);
        if (found && (!least || found < least)) least = found;
    }
    fclose(file);
    return least;
}

static _Atomic int limit; /* set by asp_limit_threads; 0: no limit */

int asp_limit_threads(int n)
{
    return n < 0 ? atomic_load_explicit(&limit, memory_order_relaxed)
                 : atomic_exchange_explicit(&limit, n, memory_order_relaxed);
}

#if ASP_HAVE_THREADS
static pthread_once_t quota_known = PTHREAD_ONCE_INIT;
static int quota;
static void find_quota(void) { quota = asp_cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup"); }

int asp_quota_cpus(void)
{
    pthread_once(&quota_known, find_quota);
    return quota;
}

int asp_max_threads(void)
{
    const int allowed = asp_quota_cpus();
#ifdef _OPENMP
    int n = omp_get_max_threads();
#else
    int n = (int)sysconf(_SC_NPROCESSORS_ONLN);
#endif
    const int most = atomic_load_explicit(&limit, memory_order_relaxed);
    if (most && most < n) n = most;
    return n < 1 ? 1 : allowed && allowed < n ? allowed : n;
}

#else
int asp_max_threads(void) { return 1; }
#endif
