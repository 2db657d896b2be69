/* ∀i (∀j R[i,j] += T0[i:s,j:s] * w1[j:l] where ∀kj w1[j] += T1[i:l,k:s] * T2[k:l,j:s]) */
static int part(void **args, const int64_t *extents, int64_t lo, int64_t hi, asp_out *out, W *result)
{
  int failed = 0;
  asp_space w1 = {0};
  const int64_t n_i = extents[0]; (void)n_i;
  const int64_t n_j = extents[1]; (void)n_j;
  const int64_t n_k = extents[2]; (void)n_k;
  const X * T0_pos0 = args[0]; (void)T0_pos0;
  const X * T0_crd0 = args[1]; (void)T0_crd0;
  const X * T0_pos1 = args[2]; (void)T0_pos1;
  const X * T0_crd1 = args[3]; (void)T0_crd1;
  const V * T0_val = args[4]; (void)T0_val;
  const X * T1_pos0 = args[5]; (void)T1_pos0;
  const X * T1_crd0 = args[6]; (void)T1_crd0;
  const X * T1_pos1 = args[7]; (void)T1_pos1;
  const X * T1_crd1 = args[8]; (void)T1_crd1;
  const V * T1_val = args[9]; (void)T1_val;
  const X * T2_pos0 = args[10]; (void)T2_pos0;
  const X * T2_crd0 = args[11]; (void)T2_crd0;
  const X * T2_pos1 = args[12]; (void)T2_pos1;
  const X * T2_crd1 = args[13]; (void)T2_crd1;
  const V * T2_val = args[14]; (void)T2_val;
  if (space_new(&w1, n_j)) { failed = 1; goto end; }
  const X e_T0_0 = find_from(T0_crd0, T0_pos0[0], T0_pos0[0 + 1], hi); (void)e_T0_0;
  for (X p_T0_0 = find_from(T0_crd0, T0_pos0[0], T0_pos0[0 + 1], lo); p_T0_0 < e_T0_0; p_T0_0++) {
    const X i = T0_crd0[p_T0_0]; (void)i;
    const X p_T1_0 = i; (void)p_T1_0;
    if (T1_pos1[p_T1_0] < T1_pos1[p_T1_0 + 1]) {
      {
        space_clear(&w1);
        const X e_T1_1 = T1_pos1[p_T1_0 + 1]; (void)e_T1_1;
        for (X p_T1_1 = T1_pos1[p_T1_0]; p_T1_1 < e_T1_1; p_T1_1++) {
          const X k = T1_crd1[p_T1_1]; (void)k;
          const X p_T2_0 = k; (void)p_T2_0;
          if (T2_pos1[p_T2_0] < T2_pos1[p_T2_0 + 1]) {
            const X e_T2_1 = T2_pos1[p_T2_0 + 1]; (void)e_T2_1;
            for (X p_T2_1 = T2_pos1[p_T2_0]; p_T2_1 < e_T2_1; p_T2_1++) {
              const X j = T2_crd1[p_T2_1]; (void)j;
              space_add(&w1, j, T1_val[p_T1_1] * T2_val[p_T2_1]);
            }
          }
        }
        if (w1.n) {
          const X e_T0_1 = T0_pos1[p_T0_0 + 1]; (void)e_T0_1;
          for (X p_T0_1 = T0_pos1[p_T0_0]; p_T0_1 < e_T0_1; p_T0_1++) {
            const X j = T0_crd1[p_T0_1]; (void)j;
            if (space_has(&w1, j)) {
              if (push(out, (X[]){(X)i, (X)j}, T0_val[p_T0_1] * w1.value[j])) { failed = 1; goto end; }
            }
          }
        }
      }
    }
  }
end: (void)out, (void)result, (void)lo, (void)hi;
  space_free(&w1);
  return failed;
}
