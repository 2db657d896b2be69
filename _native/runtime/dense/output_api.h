/* Functions of an allocator, called with its context; `bytes` of `free` is not used. */
typedef struct asp_allocator {
    void *context;
    void *(*malloc)(void *context, size_t bytes);
    void *(*calloc)(void *context, size_t n, size_t bytes);
    void *(*realloc)(void *context, void *elements, size_t bytes);
    void (*free)(void *context, void *elements, size_t bytes);
} asp_allocator;
/* Return the allocator behind memory.empty_output, which reuses the pages of large freed results. With `is_scratch`:
 * the one for packed copies and other work space of tuning, whose freed blocks are kept separately. */
const asp_allocator *asp_output_allocator(int is_scratch);
/* Keep at most `bytes` bytes of freed blocks; 0 frees what is kept and keeps nothing. */
void asp_output_limit(int64_t bytes);
/* Set the same limit for work space of tuning; it is 0 initially. */
void asp_scratch_limit(int64_t bytes);
/* Free kept results until at most `bytes` bytes remain, and let malloc return its free memory to the system. */
void asp_output_trim(int64_t bytes);
/* Let malloc merge the places of large aligned blocks that this thread freed, in 1.3 us, if the heap has grown. */
void asp_output_merge(void);
/* Return the bytes of freed blocks that are kept now. */
int64_t asp_output_kept_bytes(void);
int64_t asp_scratch_kept_bytes(void);
/* Return the addresses of `void *take(size_t bytes)` and `void give(void *elements, size_t bytes)`, which allocate
 * work space from the same pages. */
void *asp_output_take_address(void);
void *asp_output_give_address(void);
