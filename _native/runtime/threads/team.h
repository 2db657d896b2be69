/* Jobs on the threads of a host's OpenMP, in the place of helpers of the pool; used by pool.c.
 *
 * PyTorch computes dense operators on threads of OpenMP, which stay awake for milliseconds after each of them. Beside
 * them a helper of the pool waits for a core: a product on two cores is no faster than on one, and the dense operator
 * after it starts late. The same threads for both have neither cost. All threads that the caller may use take part,
 * because libgomp ends threads when a smaller team follows a larger one, and starts them again afterwards. */

/* Return whether jobs run on a host's threads. */
int asp_has_team(void);
/* Run work(number) for the numbers of threads below n, or of fewer threads where the host has fewer; 0 is the caller. */
void asp_run_in_team(void (*work)(int), int n_threads);
/* Return to the helpers of the pool, in the child of a fork: the host's threads do not survive it. */
void asp_forget_team(void);
