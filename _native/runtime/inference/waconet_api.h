/* Evaluate WACONet without PyTorch (tuner/research/networks/waconet.py is the reference). pooled (n_layers, 32) receives, per
 * layer, the means over the cells of the results of n_layers sparse convolutions with 32 channels each and ReLU after
 * each. Cells are (i, j, k) with n_dims 3, or (j, k) with n_dims 2 and i NULL; they are distinct, in lexicographic
 * order, nonnegative and < 2^30.
 *
 * weights: (5^n_dims, 32) of the first layer, whose input is 1 on every cell, then (3^n_dims, 32, 32) of each other
 * layer, which has stride 2; kernel offsets have the first coordinate fastest. Returns 0, ASP_NO_MEMORY or
 * ASP_BAD_SIZE.
 */
int asp_waconet(int n_dims, int64_t n_cells, const int32_t *i, const int32_t *j, const int32_t *k, int n_layers,
                const float *weights, float *pooled, int n_threads);
