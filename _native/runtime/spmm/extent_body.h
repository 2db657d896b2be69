/* Compute the minimum and maximum of n > 0 indices, which bound the columns that a scattering product touches. */
static void NAME(extent)(const void *of, int64_t n, int64_t *low, int64_t *high)
{
    const I *indices = of;
    I least = indices[0], most = indices[0];
    for (int64_t k = 0; k < n; k++) {
        least = indices[k] < least ? indices[k] : least;
        most = indices[k] > most ? indices[k] : most;
    }
    *low = (int64_t)least;
    *high = (int64_t)most;
}
