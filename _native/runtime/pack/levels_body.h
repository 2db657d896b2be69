/* Sorting and writing for one width of keys (KEY, NAME); included by levels.c. */

/* A key and the number of its entry. */
typedef struct __attribute__((packed)) {
    KEY key;
    uint32_t number;
} NAME(entry);

/* State of a radix sort, shared by the tasks of its blocks. */
typedef struct {
    const asp_sorted *s;
    NAME(entry) * from, *to;
    int64_t (*counts)[1 << DIGIT_BITS]; /* number of entries per digit, later the next position; by block */
    int64_t n_blocks;
    int shift, digit_bits;
    int in_order[MAX_BLOCKS];
} NAME(job);

/* Return the first entry of a block. */
ASP_INLINE int64_t NAME(begin)(const NAME(job) * job, int64_t block)
{
    return job->s->order.nnz * block / job->n_blocks;
}

/* Pool task: compute the keys of the blocks and whether each block is sorted. */
static void NAME(make_keys)(void *context, int64_t block, int64_t end_block)
{
    NAME(job) *job = context;
    const asp_level_order *o = &job->s->order;
    for (; block < end_block; ++block) {
        const int64_t end = NAME(begin)(job, block + 1);
        KEY before = 0;
        int in_order = 1;
        for (int64_t e = NAME(begin)(job, block); e < end; ++e) {
            KEY key = 0;
            for (int d = 0; d < (int)o->n_levels; ++d)
                key |= (KEY)(uint64_t)coordinate(o, d, e) << job->s->shift[d];
            job->from[e].key = key;
            job->from[e].number = (uint32_t)e;
            const KEY sorted_by = job->s->low_bit < job->s->key_bits ? key >> job->s->low_bit : 0;
            in_order &= before <= sorted_by;
            before = sorted_by;
        }
        job->in_order[block] = in_order;
    }
}

/* Pool task: count the digits of the blocks. */
static void NAME(count)(void *context, int64_t block, int64_t end_block)
{
    NAME(job) *job = context;
    const uint64_t mask = (1u << job->digit_bits) - 1;
    for (; block < end_block; ++block) {
        int64_t *counts = job->counts[block];
        memset(counts, 0, sizeof job->counts[block]);
        const int64_t end = NAME(begin)(job, block + 1);
        for (int64_t q = NAME(begin)(job, block); q < end; ++q)
            ++counts[(uint64_t)(job->from[q].key >> job->shift) & mask];
    }
}

/* Pool task: move the entries of the blocks to their positions. */
static void NAME(scatter)(void *context, int64_t block, int64_t end_block)
{
    NAME(job) *job = context;
    const uint64_t mask = (1u << job->digit_bits) - 1;
    for (; block < end_block; ++block) {
        int64_t *next = job->counts[block];
        const int64_t end = NAME(begin)(job, block + 1);
        for (int64_t q = NAME(begin)(job, block); q < end; ++q)
            job->to[next[(uint64_t)(job->from[q].key >> job->shift) & mask]++] = job->from[q];
    }
}

/* Compute where each block writes its first entry of each digit; return 0 when all entries have the same digit. */
static int NAME(place)(NAME(job) * job)
{
    int64_t total = 0;
    for (int digit = 0; digit < 1 << job->digit_bits; ++digit) {
        const int64_t first = total;
        for (int64_t block = 0; block < job->n_blocks; ++block) {
            const int64_t n = job->counts[block][digit];
            job->counts[block][digit] = total;
            total += n;
        }
        if (total - first == job->s->order.nnz) return 0;
    }
    return 1;
}

/* Run a task over all blocks on the pool. */
static void NAME(run)(NAME(job) * job, asp_task task, double ns_per_entry)
{
    const asp_level_order *o = &job->s->order;
    asp_parallel(task, job, job->n_blocks, 1, 1, o->n_threads, ns_per_entry * (double)o->nnz);
}

/* Sort the entries by the fields from low_bit on; return 0 without memory. */
static int NAME(radix_sort)(NAME(job) * job)
{
    const asp_sorted *s = job->s;
    const int n_bits = s->key_bits - s->low_bit, n_passes = (n_bits + DIGIT_BITS - 1) / DIGIT_BITS;
    if (!n_passes) return 1;
    job->counts = malloc((size_t)job->n_blocks * sizeof *job->counts);
    job->to = malloc((size_t)(s->order.nnz + 1) * sizeof *job->to);
    const int ok = job->counts && job->to;
    const int width = (n_bits + n_passes - 1) / n_passes;
    for (int pass = 0; ok && pass < n_passes; ++pass) {
        job->shift = s->low_bit + pass * width;
        job->digit_bits = job->shift + width <= s->key_bits ? width : s->key_bits - job->shift;
        NAME(run)(job, NAME(count), 1);
        if (!NAME(place)(job)) continue;
        NAME(run)(job, NAME(scatter), 4);
        NAME(entry) *swap = job->from;
        job->from = job->to;
        job->to = swap;
    }
    free(job->counts);
    free(job->to);
    return ok;
}

/* Return the outermost level, among those sorted by, in which two keys differ; n_sorted if none. */
ASP_INLINE int NAME(first_difference)(const asp_sorted *s, KEY a, KEY b)
{
    const KEY x = a ^ b;
    int d = 0;
    while (d < (int)s->order.n_sorted && (x >> s->shift[d]) == 0) ++d;
    return d;
}

/* Create and sort the entries and count the positions of each level; return 0 without memory. */
static int NAME(sort)(asp_sorted *s, int64_t *n_listed, int *in_order)
{
    const asp_level_order *o = &s->order;
    const int64_t wanted = 1 + o->nnz / BLOCK_MIN;
    NAME(job) job = {.s = s, .n_blocks = wanted < MAX_BLOCKS ? wanted : MAX_BLOCKS};
    job.from = malloc((size_t)(o->nnz + 1) * sizeof *job.from);
    if (!job.from) return 0;
    NAME(run)(&job, NAME(make_keys), 4);
    *in_order = 1;
    for (int64_t block = 0; block < job.n_blocks; ++block) {
        const int64_t first = NAME(begin)(&job, block);
        *in_order &= job.in_order[block];
        if (block && first < o->nnz && s->low_bit < s->key_bits)
            *in_order &= job.from[first - 1].key >> s->low_bit <= job.from[first].key >> s->low_bit;
    }
    const int ok = *in_order || NAME(radix_sort)(&job);
    s->entries = job.from;
    /* Number of entries whose first difference from the previous one is in each level. */
    int64_t opened[MAX_LEVELS + 1] = {0};
    for (int64_t q = 1; ok && q < o->nnz; ++q)
        ++opened[NAME(first_difference)(s, job.from[q].key, job.from[q - 1].key)];
    opened[0] += o->nnz > 0;
    int64_t n = 0;
    for (int d = 0; d < (int)o->n_levels; ++d) {
        if (d < (int)o->n_sorted) n += opened[d];
        n_listed[d] = d + 1 == (int)o->n_levels || o->kind[d] > COMPRESSED ? o->nnz : n;
    }
    return ok;
}

/* Implementation of asp_write_levels. */
static void NAME(write)(const asp_sorted *s, int pos_bits, void *const *pos, int crd_bits, void *const *crd,
                        void *numbers, int64_t *positions)
{
    const asp_level_order *o = &s->order;
    const NAME(entry) *entries = s->entries;
    const int n_levels = (int)o->n_levels;
    int64_t at[MAX_LEVELS + 1] = {0}, n[MAX_LEVELS] = {0}; /* at[d + 1]: position in level d; n: positions so far */
    for (int64_t q = 0; q < o->nnz; ++q) {
        const KEY key = entries[q].key;
        int d = q ? NAME(first_difference)(s, key, entries[q - 1].key) : 0;
        while (d > 0 && o->kind[d - 1] == NONUNIQUE) --d; /* every entry has a position there */
        for (; d < n_levels; ++d) {
            const int64_t c = (int64_t)((uint64_t)(key >> s->shift[d]) & (((uint64_t)1 << s->bits[d]) - 1));
            if (o->kind[d] == UNCOMPRESSED) {
                at[d + 1] = at[d] * o->extent[d] + c;
                continue;
            }
            if (o->kind[d] == SINGLETON) {
                at[d + 1] = at[d];
                asp_put(crd[d], crd_bits, at[d], c);
                continue;
            }
            at[d + 1] = n[d]++;
            asp_put(crd[d], crd_bits, at[d + 1], c);
            if (pos_bits == 32) ++((int32_t *)pos[d])[at[d] + 1];
            else ++((int64_t *)pos[d])[at[d] + 1];
        }
        if (numbers) asp_put(numbers, pos_bits, q, entries[q].number);
        if (positions) positions[q] = at[n_levels];
    }
}
