/* Lists of candidate tiles by gain; see tile_lists.h. */
#include <stdint.h>
#include <stdlib.h>
#include "tile_lists.h"

int64_t asp_tile_height(const asp_tile_operator *one)
{
    return one->family == BLOCK ? one->r : 1;
}

int64_t asp_tile_groups(const tile_planner *p, int64_t k)
{
    const int64_t height = asp_tile_height(&p->operators[k]);
    return (p->n_rows + height - 1) / height;
}

/* With repeated entries a tile's gain may exceed its number of cells: such tiles share the last list. */
int32_t *asp_tile_list(const tile_planner *p, int64_t k, int64_t group, int64_t gain)
{
    gain = gain < p->most_gain ? gain : p->most_gain;
    return &p->heads[(k * p->options->window + group) * (p->most_gain + 1) + gain];
}

void asp_join_list(tile_planner *p, int64_t k, int32_t at)
{
    planned_tile *tiles = p->tiles + k * p->n_entries, *one = &tiles[at];
    if (one->gain <= 0)
        return;
    int32_t *head = asp_tile_list(p, k, one->group, one->gain);
    one->before = -1;
    one->next = *head;
    if (*head >= 0)
        tiles[*head].before = at;
    *head = at;
    int64_t *top = &p->top[k * p->options->window + one->group];
    const int64_t list = one->gain < p->most_gain ? one->gain : p->most_gain;
    if (*top < list)
        *top = list;
}

void asp_leave_list(tile_planner *p, int64_t k, int32_t at)
{
    planned_tile *tiles = p->tiles + k * p->n_entries, *one = &tiles[at];
    if (one->gain <= 0)
        return;
    if (one->before >= 0)
        tiles[one->before].next = one->next;
    else
        *asp_tile_list(p, k, one->group, one->gain) = one->next;
    if (one->next >= 0)
        tiles[one->next].before = one->before;
}

static int by_key(const void *left, const void *right)
{
    const keyed_entry *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->entry > b->entry) - (a->entry < b->entry);
}

/* Create the blocks of operator k that hold an entry, by groups of rows. */
void asp_cut_blocks(tile_planner *p, int64_t k)
{
    const asp_tile_operator *one = &p->operators[k];
    const int64_t n = p->n_entries;
    int32_t *tile_of = p->tile_of + k * n, *begin = p->begin + k * (n + 1), *order = p->order + k * n, made = 0;
    int64_t placed = 0;
    for (int64_t first = 0, group = 0; first < p->n_rows; first += one->r, group++) {
        const int64_t last = first + one->r < p->n_rows ? first + one->r : p->n_rows;
        const int64_t from = p->row_begin[first], count = p->row_begin[last] - from;
        for (int64_t e = 0; e < count; e++)
            p->keys[e] = (keyed_entry){p->columns[from + e] / one->c, (int32_t)(from + e)};
        qsort(p->keys, (size_t)count, sizeof *p->keys, by_key);
        for (int64_t e = 0; e < count; e++) {
            if (e == 0 || p->keys[e].key != p->keys[e - 1].key) {
                begin[made] = (int32_t)placed;
                p->tiles[k * n + made++] = (planned_tile){0, -1, -1, (int32_t)group};
            }
            order[placed++] = p->keys[e].entry;
            tile_of[p->keys[e].entry] = made - 1;
            p->tiles[k * n + made - 1].gain++;
        }
    }
    begin[made] = (int32_t)placed;
    p->n_tiles[k] = made;
    for (int32_t at = made; at-- > 0;)
        asp_join_list(p, k, at);
}

/* Create runs of at most c uncovered entries of a row; at least half of a run must be filled. Tiles are identified by
 * their first entry. */
void asp_cut_runs(tile_planner *p, int64_t k, int64_t row)
{
    const int64_t most = p->operators[k].c, n = p->n_entries;
    int32_t *tile_of = p->tile_of + k * n;
    for (int64_t e = p->row_begin[row]; e < p->row_begin[row + 1]; e++) {
        if (tile_of[e] == e)
            asp_leave_list(p, k, (int32_t)e);
        tile_of[e] = -1;
    }
    int64_t left = p->row_left[row], run = 0, first = -1;
    for (int64_t e = p->row_begin[row]; e < p->row_begin[row + 1]; e++) {
        if (p->owner[e] >= 0)
            continue;
        if (run == 0) {
            first = e;
            run = left < most ? left : most;
            p->tiles[k * n + first] = (planned_tile){(int32_t)run, -1, -1, (int32_t)row};
            if (2 * run <= most)
                break;
            asp_join_list(p, k, (int32_t)first);
        }
        tile_of[e] = (int32_t)first;
        left--;
        run--;
    }
}
