"""C source that runs an einsum's parts on several threads and concatenates their outputs."""

from __future__ import annotations

from typing import Final

RUN: Final = r"""
typedef void (*asp_task)(void *context, int64_t begin, int64_t end);
typedef int (*asp_pool)(asp_task task, void *context, int64_t n, int64_t least, int64_t most, int threads, double ns);
typedef struct {
  void **args; const int64_t *extents, *edges; asp_out *outs; W *result; int64_t stride; int failed;
  X *crd[N_MODES]; V *val; int64_t *counts;
} asp_job;

static void asp_some(void *context, int64_t begin, int64_t end)
{
  asp_job *job = context;
  for (int64_t n = begin; n < end; n++)
    if (part(job->args, job->extents, job->edges[n], job->edges[n + 1], job->outs + n, job->result + n * job->stride))
      __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
}

/* The outer loop in n_parts ranges between `edges`. Each writes to an output of its own, and to `result`, of which it
 * has a part of its own where `stride` says so. 1: no memory. */
int asp_einsum(void **args, const int64_t *extents, const int64_t *edges, int64_t n_parts, asp_out *outs, W *result,
               int64_t stride, asp_pool pool, int threads, double serial_ns)
{
  asp_job job = {.args = args, .extents = extents, .edges = edges, .outs = outs, .result = result, .stride = stride};
  if (!pool || n_parts == 1) asp_some(&job, 0, n_parts);
  else pool(asp_some, &job, n_parts, 1, 1, threads, serial_ns);
  return job.failed;
}

static void asp_copy(void *context, int64_t begin, int64_t end)
{
  asp_job *job = context;
  for (int64_t n = begin; n < end; n++) {
    const asp_out *out = job->outs + n;
    int64_t at = 0;
    for (int64_t k = 0; k < n; k++) at += job->outs[k].n;
    for (int m = 0; m < N_MODES; m++) {
      if (m == 0 && job->counts) for (int64_t e = 0; e < out->n; e++) job->counts[out->crd[0][e] + 1]++;
      else if (out->n) memcpy(job->crd[m] + at, out->crd[m], out->n * sizeof(X));
    }
    for (int64_t e = 0; e < out->n; e++) job->val[at + e] = (V)out->val[e];
    asp_free(job->outs + n);
  }
}

/* The parts of an output one after the other, their memory freed. With `counts` (one more than the first mode's extent,
 * zeroed) entries of each index of the first mode are counted there instead of written; parts share no such index. */
void asp_collect(asp_out *outs, int64_t n_parts, X **crd, V *val, int64_t *counts, asp_pool pool, int threads,
                 double serial_ns)
{
  asp_job job = {.outs = outs, .val = val, .counts = counts};
  for (int m = 0; m < N_MODES; m++) job.crd[m] = crd[m];
  if (!pool || n_parts == 1) asp_copy(&job, 0, n_parts);
  else pool(asp_copy, &job, n_parts, 1, 1, threads, serial_ns);
}
"""
"""C source of the entry points `asp_einsum` and `asp_collect`."""
