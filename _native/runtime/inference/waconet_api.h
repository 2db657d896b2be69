/* WACONet without PyTorch (tuner/networks/waconet.py is the reference): means over the cells of the results of
 * n_layers sparse convolutions, 32 channels each, ReLU after each, into pooled (n_layers, 32).
 * Cells (i, j, k), n_dims 3, or (j, k), n_dims 2 and i NULL: distinct, in lexicographic order, not negative, < 2^30.
 * weights: (5^n_dims, 32) of the first layer, whose input is 1 on every cell, then (3^n_dims, 32, 32) of each other one,
 * stride 2; offsets with the first coordinate fastest. 0, or ASP_NO_MEMORY, or ASP_BAD_SIZE. */
int asp_waconet(int n_dims, int64_t n_cells, const int32_t *i, const int32_t *j, const int32_t *k, int n_layers,
                const float *weights, float *pooled, int n_threads);
