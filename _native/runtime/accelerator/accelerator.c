/* Simulation of a tiled sparse accelerator: exact counts of segments that miss in exact LRU caches, and the resulting
 * cycles. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "accelerator_api.h"

typedef struct asp_accelerator machine_t;
typedef struct asp_accelerated operation_t;
typedef struct asp_tiling tiling_t;
typedef struct asp_traffic traffic_t;

/* --- A fully associative cache of segments with least recently used replacement ---------------------------------- */

/* The cache: a hash table from keys to slots, and a doubly linked list of slots by recency. */
typedef struct {
    int32_t capacity, used, newest, oldest, mask;
    int32_t *key, *newer, *older, *chain, *head; /* all but head: one per slot; head: one per bucket */
} lru_t;

static int32_t bucket_of(const lru_t *cache, int32_t key) {
    return (int32_t)(((uint32_t)key * 2654435761u) >> 7) & cache->mask;
}

static int lru_make(lru_t *cache, int64_t n_segments, int64_t n_keys) {
    memset(cache, 0, sizeof *cache);
    cache->capacity = (int32_t)(n_segments < n_keys ? n_segments : n_keys);
    int64_t n_buckets = 1;
    while (n_buckets < cache->capacity) n_buckets *= 2;
    cache->mask = (int32_t)(n_buckets - 1);
    if (cache->capacity == 0) return 1;
    cache->key = malloc(sizeof(int32_t) * (size_t)(4 * (int64_t)cache->capacity + n_buckets));
    if (cache->key == NULL) return 0;
    cache->newer = cache->key + cache->capacity;
    cache->older = cache->newer + cache->capacity;
    cache->chain = cache->older + cache->capacity;
    cache->head = cache->chain + cache->capacity;
    return 1;
}

static void lru_empty(lru_t *cache) {
    cache->used = 0;
    cache->newest = cache->oldest = -1;
    if (cache->capacity) memset(cache->head, 0xff, sizeof(int32_t) * ((size_t)cache->mask + 1));
}

static void unlink_slot(lru_t *cache, int32_t slot) {
    int32_t newer = cache->newer[slot], older = cache->older[slot];
    if (newer >= 0) cache->older[newer] = older; else cache->newest = older;
    if (older >= 0) cache->newer[older] = newer; else cache->oldest = newer;
}

static void link_newest(lru_t *cache, int32_t slot) {
    cache->newer[slot] = -1;
    cache->older[slot] = cache->newest;
    if (cache->newest >= 0) cache->newer[cache->newest] = slot; else cache->oldest = slot;
    cache->newest = slot;
}

static int32_t free_slot(lru_t *cache) {
    if (cache->used < cache->capacity) return cache->used++;
    int32_t slot = cache->oldest;
    unlink_slot(cache, slot);
    int32_t *at = &cache->head[bucket_of(cache, cache->key[slot])];
    while (*at != slot) at = &cache->chain[*at];
    *at = cache->chain[slot];
    return slot;
}

/* Access `key`, which becomes the most recently used one; return 1 if it was cached. */
static int lru_touch(lru_t *cache, int32_t key) {
    if (cache->capacity == 0) return 0;
    int32_t bucket = bucket_of(cache, key);
    for (int32_t slot = cache->head[bucket]; slot >= 0; slot = cache->chain[slot]) {
        if (cache->key[slot] != key) continue;
        if (slot != cache->newest) {
            unlink_slot(cache, slot);
            link_newest(cache, slot);
        }
        return 1;
    }
    int32_t slot = free_slot(cache);
    cache->key[slot] = key;
    cache->chain[slot] = cache->head[bucket];
    cache->head[bucket] = slot;
    link_newest(cache, slot);
    return 0;
}

/* --- Tiles: entries by row panel, column panel, row, column ------------------------------------------------------- */

/* A tiled matrix: entries sorted by row panel, column panel, row and column. */
typedef struct {
    int64_t n_tiles, n_panels, n_column_panels;
    int64_t *starts;       /* n_tiles + 1, into rows and columns */
    int32_t *column_panel; /* per tile */
    int64_t *first_tile;   /* per row panel, n_panels + 1 */
    int32_t *rows, *columns;
} tiles_t;

static int ascending(const void *one, const void *other) {
    int32_t a = *(const int32_t *)one, b = *(const int32_t *)other;
    return (a > b) - (a < b);
}

static void tiles_free(tiles_t *tiles) {
    free(tiles->starts);
    free(tiles->column_panel);
    free(tiles->first_tile);
    free(tiles->rows);
    free(tiles->columns);
}

/* Append the tiles of the rows order[begin:end]; `count` and `met` are scratch, one element per column panel. */
static void add_panel(tiles_t *tiles, int64_t begin, int64_t end, int64_t p_col, const int32_t *indptr,
                      const int32_t *indices, const int32_t *order, int64_t *count, int32_t *met) {
    int64_t n_met = 0, at = tiles->starts[tiles->n_tiles];
    for (int64_t r = begin; r < end; r++)
        for (int64_t e = indptr[order[r]]; e < indptr[order[r] + 1]; e++) {
            int32_t panel = (int32_t)(indices[e] / p_col);
            if (count[panel]++ == 0) met[n_met++] = panel;
        }
    qsort(met, (size_t)n_met, sizeof *met, ascending);
    for (int64_t m = 0; m < n_met; m++) {
        int64_t n_entries = count[met[m]];
        count[met[m]] = at;
        at += n_entries;
        tiles->column_panel[tiles->n_tiles] = met[m];
        tiles->starts[++tiles->n_tiles] = at;
    }
    for (int64_t r = begin; r < end; r++)
        for (int64_t e = indptr[order[r]]; e < indptr[order[r] + 1]; e++) {
            int64_t place = count[indices[e] / p_col]++;
            tiles->rows[place] = order[r];
            tiles->columns[place] = indices[e];
        }
    for (int64_t m = 0; m < n_met; m++) count[met[m]] = 0;
}

static int tiles_make(tiles_t *tiles, const tiling_t *tiling, int64_t n_rows, int64_t n_cols, const int32_t *indptr,
                      const int32_t *indices, const int32_t *order) {
    size_t nnz = (size_t)indptr[n_rows] + 1;
    tiles->n_panels = (n_rows + tiling->p_row - 1) / tiling->p_row;
    tiles->n_column_panels = (n_cols + tiling->p_col - 1) / tiling->p_col;
    tiles->starts = malloc(sizeof(int64_t) * (nnz + 1));
    tiles->column_panel = malloc(sizeof(int32_t) * nnz);
    tiles->first_tile = malloc(sizeof(int64_t) * ((size_t)tiles->n_panels + 1));
    tiles->rows = malloc(sizeof(int32_t) * nnz);
    tiles->columns = malloc(sizeof(int32_t) * nnz);
    int64_t *count = calloc((size_t)tiles->n_column_panels + 1, sizeof *count);
    int32_t *met = malloc(sizeof(int32_t) * ((size_t)tiles->n_column_panels + 1));
    int is_there = tiles->starts && tiles->column_panel && tiles->first_tile && tiles->rows && tiles->columns && count
                   && met;
    if (is_there) {
        tiles->n_tiles = 0;
        tiles->starts[0] = 0;
        for (int64_t panel = 0; panel < tiles->n_panels; panel++) {
            int64_t begin = panel * tiling->p_row, end = begin + tiling->p_row;
            tiles->first_tile[panel] = tiles->n_tiles;
            add_panel(tiles, begin, end < n_rows ? end : n_rows, tiling->p_col, indptr, indices, order, count, met);
        }
        tiles->first_tile[tiles->n_panels] = tiles->n_tiles;
    }
    free(count);
    free(met);
    return is_there;
}

/* --- One pass over all tiles, for dense rows of one width --------------------------------------------------------- */

/* State of one pass. */
typedef struct {
    const machine_t *machine;
    const operation_t *operation;
    const tiling_t *tiling;
    const tiles_t *tiles;
    int64_t n_rows, n_cols;
    lru_t *l1, llc;
    int64_t *compute, *port; /* cycles and bytes per element in this interval */
    int64_t *panel;          /* per element: the row panel where it continues */
    int64_t *next_tile;      /* per row panel */
    char *is_begun;          /* per row: its result or operand was moved before */
    int64_t segment, vectors, interval_llc, interval_dram, interval_entries;
    double first_cycles, later_cycles; /* of the first split, and of another one */
    traffic_t sum;                     /* of one split, without the entries' own bytes */
} pass_t;

/* Access a segment: count misses and the bytes moved. */
static void touch(pass_t *pass, int64_t pe, int32_t key, int64_t moved) {
    if (lru_touch(&pass->l1[pe], key)) return;
    pass->sum.l1_misses++;
    pass->port[pe] += moved;
    pass->interval_llc += moved;
    if (lru_touch(&pass->llc, key)) return;
    pass->sum.llc_misses++;
    pass->interval_dram += moved;
}

/* Count the work at the beginning of a row in a tile. */
static void begin_row(pass_t *pass, int64_t pe, int32_t row) {
    int64_t moves = pass->is_begun[row] ? pass->operation->later_moves : pass->operation->first_moves;
    pass->is_begun[row] = 1;
    pass->compute[pe] += pass->operation->row_vectors * pass->vectors;
    pass->sum.vectors += pass->operation->row_vectors * pass->vectors;
    if (pass->tiling->bypass) {
        pass->port[pe] += moves * pass->segment;
        pass->interval_dram += moves * pass->segment;
    } else {
        touch(pass, pe, (int32_t)(pass->n_cols + row), moves * pass->segment);
    }
}

/* Execute one tile on the element pe. */
static void run_tile(pass_t *pass, int64_t pe, int64_t tile) {
    const tiles_t *tiles = pass->tiles;
    int32_t row = -1;
    pass->compute[pe] += pass->machine->tile_cycles;
    for (int64_t e = tiles->starts[tile]; e < tiles->starts[tile + 1]; e++) {
        if (tiles->rows[e] != row) {
            row = tiles->rows[e];
            begin_row(pass, pe, row);
        }
        pass->compute[pe] += pass->vectors;
        touch(pass, pe, tiles->columns[e], pass->segment);
    }
    int64_t n_entries = tiles->starts[tile + 1] - tiles->starts[tile];
    pass->interval_entries += n_entries;
    pass->sum.vectors += n_entries * pass->vectors;
    pass->sum.n_tiles++;
}

/* Add the cycles of the interval: the slowest of compute, ports, LLC and DRAM. */
static void end_interval(pass_t *pass) {
    const machine_t *machine = pass->machine;
    double slowest = 0;
    for (int64_t pe = 0; pe < machine->n_pes; pe++) {
        double port = (double)pass->port[pe] / machine->port_width, compute = (double)pass->compute[pe];
        double longer = port > compute ? port : compute;
        if (longer > slowest) slowest = longer;
        pass->sum.port_bytes += pass->port[pe];
        pass->port[pe] = pass->compute[pe] = 0;
    }
    double llc = (double)pass->interval_llc / machine->llc_width;
    if (llc > slowest) slowest = llc;
    int64_t first = pass->interval_dram + pass->interval_entries * pass->operation->first_entry_bytes;
    int64_t later = pass->interval_dram + pass->interval_entries * pass->operation->later_entry_bytes;
    double first_dram = (double)first / machine->dram_width, later_dram = (double)later / machine->dram_width;
    double barrier = pass->tiling->barrier ? (double)machine->barrier_cycles : 0;
    pass->first_cycles += (first_dram > slowest ? first_dram : slowest) + barrier;
    pass->later_cycles += (later_dram > slowest ? later_dram : slowest) + barrier;
    pass->sum.llc_bytes += pass->interval_llc;
    pass->sum.dram_bytes += pass->interval_dram;
    pass->interval_llc = pass->interval_dram = pass->interval_entries = 0;
}

/* Return the element's next tile within column panels below `end`, or -1. Its row panels are pe, pe + n_pes, ... */
static int64_t take_tile(pass_t *pass, int64_t pe, int64_t end) {
    const tiles_t *tiles = pass->tiles;
    for (; pass->panel[pe] < tiles->n_panels; pass->panel[pe] += pass->machine->n_pes) {
        int64_t panel = pass->panel[pe], tile = pass->next_tile[panel];
        if (tile < tiles->first_tile[panel + 1] && tiles->column_panel[tile] < end) {
            pass->next_tile[panel]++;
            return tile;
        }
    }
    return -1;
}

/* Execute all remaining tiles in column panels below `end`, one tile per element and turn. */
static void run_interval(pass_t *pass, int64_t end) {
    int64_t n_done = 0;
    for (int64_t pe = 0; pe < pass->machine->n_pes; pe++) pass->panel[pe] = pe;
    for (int is_busy = 1; is_busy;) {
        is_busy = 0;
        for (int64_t pe = 0; pe < pass->machine->n_pes; pe++) {
            int64_t tile = take_tile(pass, pe, end);
            if (tile < 0) continue;
            run_tile(pass, pe, tile);
            is_busy = 1;
            n_done++;
        }
    }
    if (n_done) end_interval(pass);
}

static int pass_make(pass_t *pass, const machine_t *machine, const tiles_t *tiles) {
    pass->l1 = calloc((size_t)machine->n_pes, sizeof *pass->l1);
    pass->compute = calloc((size_t)machine->n_pes * 3, sizeof *pass->compute);
    pass->next_tile = malloc(sizeof(int64_t) * ((size_t)tiles->n_panels + 1));
    pass->is_begun = malloc((size_t)pass->n_rows + 1);
    if (!pass->l1 || !pass->compute || !pass->next_tile || !pass->is_begun) return 0;
    pass->port = pass->compute + machine->n_pes;
    pass->panel = pass->port + machine->n_pes;
    int64_t n_keys = pass->n_rows + pass->n_cols;
    int is_there = lru_make(&pass->llc, machine->llc_bytes / pass->segment, n_keys);
    for (int64_t pe = 0; is_there && pe < machine->n_pes; pe++)
        is_there = lru_make(&pass->l1[pe], machine->l1_bytes / pass->segment, n_keys);
    return is_there;
}

static void pass_free(pass_t *pass) {
    for (int64_t pe = 0; pass->l1 && pe < pass->machine->n_pes; pe++) free(pass->l1[pe].key);
    free(pass->llc.key);
    free(pass->l1);
    free(pass->compute);
    free(pass->next_tile);
    free(pass->is_begun);
}

/* Execute the whole pass, with one interval per column panel if there are barriers. */
static void run_all(pass_t *pass) {
    const tiles_t *tiles = pass->tiles;
    lru_empty(&pass->llc);
    for (int64_t pe = 0; pe < pass->machine->n_pes; pe++) lru_empty(&pass->l1[pe]);
    memset(pass->is_begun, 0, (size_t)pass->n_rows);
    memcpy(pass->next_tile, tiles->first_tile, sizeof(int64_t) * (size_t)tiles->n_panels);
    if (!pass->tiling->barrier) {
        run_interval(pass, tiles->n_column_panels);
        return;
    }
    for (int64_t panel = 0; panel < tiles->n_column_panels; panel++) run_interval(pass, panel + 1);
}

/* Add n_splits passes over rows of `width` columns; is_first says that the operation's first pass is among them. */
static int add_splits(traffic_t *found, pass_t like, int64_t width, int64_t n_splits, int is_first) {
    pass_t pass = like;
    pass.segment = 4 * width;
    pass.vectors = (width + pass.machine->lanes - 1) / pass.machine->lanes;
    int is_there = pass_make(&pass, pass.machine, pass.tiles);
    if (is_there) {
        run_all(&pass);
        int64_t n_entries = pass.tiles->starts[pass.tiles->n_tiles];
        for (int64_t split = 0; split < n_splits; split++) {
            int leads = is_first && split == 0;
            found->cycles += leads ? pass.first_cycles : pass.later_cycles;
            found->dram_bytes += n_entries * (leads ? pass.operation->first_entry_bytes
                                                    : pass.operation->later_entry_bytes);
        }
        found->dram_bytes += n_splits * pass.sum.dram_bytes;
        found->llc_bytes += n_splits * pass.sum.llc_bytes;
        found->port_bytes += n_splits * pass.sum.port_bytes;
        found->l1_misses += n_splits * pass.sum.l1_misses;
        found->llc_misses += n_splits * pass.sum.llc_misses;
        found->vectors += n_splits * pass.sum.vectors;
        found->n_tiles += n_splits * pass.sum.n_tiles;
    }
    pass_free(&pass);
    return is_there;
}

int asp_accelerate(const machine_t *machine, const operation_t *operation, const tiling_t *tiling, int64_t n_rows,
                   int64_t n_cols, const int32_t *indptr, const int32_t *indices, const int32_t *order,
                   traffic_t *found) {
    memset(found, 0, sizeof *found);
    if (machine->n_pes < 1 || machine->lanes < 1 || tiling->p_row < 1 || tiling->p_col < 1 || tiling->split < 1) return 1;
    tiles_t tiles = {0};
    int is_there = tiles_make(&tiles, tiling, n_rows, n_cols, indptr, indices, order);
    pass_t like = {.machine = machine, .operation = operation, .tiling = tiling, .tiles = &tiles, .n_rows = n_rows,
                   .n_cols = n_cols};
    int64_t n_whole = operation->n_columns / tiling->split, rest = operation->n_columns % tiling->split;
    if (is_there && n_whole) is_there = add_splits(found, like, tiling->split, n_whole, 1);
    if (is_there && rest) is_there = add_splits(found, like, rest, 1, n_whole == 0);
    tiles_free(&tiles);
    return is_there ? 0 : 2;
}
