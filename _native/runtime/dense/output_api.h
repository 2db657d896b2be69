/* Pages of large freed results, kept for the next ones: the allocator behind memory.empty_output.
 * The handler is NumPy's PyDataMem_Handler (NEP 49), version 1. */
void *asp_output_handler(void);
/* Keep at most this many bytes of freed blocks (0: none, and free what is kept). */
void asp_output_limit(int64_t bytes);
/* Addresses of `void *take(size_t bytes)` and `void give(void *elements, size_t bytes)`: the same pages for work space. */
void *asp_output_take_address(void);
void *asp_output_give_address(void);
