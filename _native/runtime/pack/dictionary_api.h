/* Encode n values by a dictionary of distinct values (CSR-VI; Kourtis, Goumas, Koziris 2008). Values are distinguished
 * by their bits; `table` receives them, zero first, and numbers[i] the index of values[i]. With numbers NULL only the
 * table is computed. dtype: 0 float, 1 double. Returns the number of distinct values, or -1 if there are more than 16;
 * the outputs are unspecified then. */
int asp_number_values(int dtype, int64_t n, const void *values, void *table, uint8_t *numbers);
