/* Jobs on the threads of a host's OpenMP library, instead of the pool's helpers; used by pool.c.
 *
 * PyTorch computes dense operators on OpenMP threads, which spin for milliseconds after each operator. A helper of the
 * pool would compete with them for a core: a product on two cores would be no faster than on one, and the next dense
 * operator would start late. Using the same threads for both avoids this. All threads that the caller may use take
 * part, because libgomp ends threads when a smaller team follows a larger one and starts them again afterwards.
 */

/* Return whether jobs run on a host's threads. */
int asp_has_team(void);
/* Run work(number) for all thread numbers below n_threads, or for fewer where the host has fewer threads; number 0 is
 * the caller. */
void asp_run_in_team(void (*work)(int), int n_threads);
/* Return to the pool's helpers, in the child of a fork: the host's threads do not exist there. */
void asp_forget_team(void);
