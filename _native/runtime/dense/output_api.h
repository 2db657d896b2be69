/* Pages of large freed results, kept for the next ones: the allocator behind memory.empty_output.
 * The handler is NumPy's PyDataMem_Handler (NEP 49), version 1;
 * with `is_scratch` that of packed copies and other work space of tuning, whose freed blocks are kept beside results. */
void *asp_output_handler(int is_scratch);
/* Keep at most this many bytes of freed blocks (0: none, and free what is kept). */
void asp_output_limit(int64_t bytes);
/* The same for packed copies and other work space of tuning; 0 until a limit is set. */
void asp_scratch_limit(int64_t bytes);
/* Free kept results until at most `bytes` are left, and give what malloc() keeps back to the system. */
void asp_output_trim(int64_t bytes);
/* Bytes of freed blocks that are kept now. */
int64_t asp_output_kept_bytes(void);
int64_t asp_scratch_kept_bytes(void);
/* Addresses of `void *take(size_t bytes)` and `void give(void *elements, size_t bytes)`: the same pages for work space. */
void *asp_output_take_address(void);
void *asp_output_give_address(void);
