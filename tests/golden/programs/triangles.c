/* ∀ijk R += T0[i:l,j:s] * T1[j:l,k:s] * T2[i:l,k:s] */
static int part(void **args, const int64_t *extents, int64_t lo, int64_t hi, asp_out *out, W *result)
{
  int failed = 0;
  asp_marks m_T2 = {0};
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
  if (marks_new(&m_T2, n_k)) { failed = 1; goto end; }
  for (X i = lo; i < hi; i++) {
    const X p_T0_0 = i; (void)p_T0_0;
    if (T0_pos1[p_T0_0] < T0_pos1[p_T0_0 + 1]) {
      const X p_T2_0 = i; (void)p_T2_0;
      if (T2_pos1[p_T2_0] < T2_pos1[p_T2_0 + 1]) {
        const X e_T0_1 = T0_pos1[p_T0_0 + 1]; (void)e_T0_1;
        for (X p_T0_1 = T0_pos1[p_T0_0]; p_T0_1 < e_T0_1; p_T0_1++) {
          const X j = T0_crd1[p_T0_1]; (void)j;
          const X p_T1_0 = j; (void)p_T1_0;
          if (T1_pos1[p_T1_0] < T1_pos1[p_T1_0 + 1]) {
            {
              W acc = (W)0; (void)acc;
              int hit = 0; (void)hit;
              {
                X p_T2_1 = T2_pos1[p_T2_0]; (void)p_T2_1;
                const X e_T2_1 = T2_pos1[p_T2_0 + 1]; (void)e_T2_1;
                X p_T1_1 = T1_pos1[p_T1_0]; (void)p_T1_1;
                const X e_T1_1 = T1_pos1[p_T1_0 + 1]; (void)e_T1_1;
                if (e_T1_1 - p_T1_1 <= (int64_t)8 * (e_T2_1 - p_T2_1)) {
                  if (marks_set(&m_T2, T2_crd1, p_T2_1, e_T2_1)) { failed = 1; goto end; }
                  for (X from_k = p_T1_1; from_k < e_T1_1; from_k += MAX_MET) {
                    const X to_k = e_T1_1 - from_k < MAX_MET ? e_T1_1 : from_k + MAX_MET; (void)to_k;
                    X met_k[MAX_MET];
                    const int n_met_k = marks_meet(&m_T2, T1_crd1, from_k, to_k, met_k); (void)n_met_k;
                    for (X at_k = 0; at_k < n_met_k; at_k++) {
                      const X p_T1_1 = met_k[at_k]; (void)p_T1_1;
                      const X k = T1_crd1[p_T1_1]; (void)k;
                      const X p_T2_1 = m_T2.at[k] - 1; (void)p_T2_1;
                      acc += T0_val[p_T0_1] * T1_val[p_T1_1] * T2_val[p_T2_1];
                      hit = 1;
                    }
                  }
                }
                else {
                  for (; p_T2_1 < e_T2_1 && p_T1_1 < e_T1_1; p_T2_1++) {
                    const X k = T2_crd1[p_T2_1]; (void)k;
                    if (T1_crd1[p_T1_1] < k) p_T1_1 = gallop(T1_crd1, p_T1_1, e_T1_1, k);
                    if (p_T1_1 < e_T1_1 && T1_crd1[p_T1_1] == k) {
                      acc += T0_val[p_T0_1] * T1_val[p_T1_1] * T2_val[p_T2_1];
                      hit = 1;
                    }
                  }
                }
              }
              if (hit) {
                result[(int64_t)0] += acc;
              }
            }
          }
        }
      }
    }
  }
end: (void)out, (void)result, (void)lo, (void)hi;
  marks_free(&m_T2);
  return failed;
}
