/* Values of few kinds (CSR-VI; Kourtis, Goumas, Koziris 2008): `table` gets the kinds, told apart by their bits, zero
 * first, and numbers[i] the place of values[i] in it; numbers NULL: the table alone. dtype: 0 float, 1 double. Returns how
 * many there are, or -1 where the table's 16 places do not suffice (neither is of use then). */
int asp_number_values(int dtype, int64_t n, const void *values, void *table, uint8_t *numbers);
