/* Greedy choice of tiles of a matrix, window of rows by window. Tiles share nothing but rows of C, and no tile crosses
 * windows, so each window is planned independently.
 *
 * For one operator, all tiles in the same group of rows with the same gain (number of uncovered entries) cost the same
 * per entry. Tiles are kept in lists by gain, and the best tile is the head of the last nonempty list.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "tile_lists.h"

#define EPSILON 1e-9

/* Return the cost of writing a row by a tile of operator k: none if the operator writes it already. */
static double row_price(const tile_planner *p, int64_t k, int64_t row)
{
    if (p->touched[k * p->options->window + row] > 0)
        return 0.0;
    for (int64_t other = 0; other < p->n_operators; other++)
        if (p->touched[other * p->options->window + row] > 0)
            return p->options->further_row;
    return p->options->first_row;
}

/* Return the cost of writing a group of rows by a tile of operator k. */
static double group_price(const tile_planner *p, int64_t k, int64_t group)
{
    const int64_t height = asp_tile_height(&p->operators[k]);
    double price = 0.0;
    for (int64_t row = group * height; row < (group + 1) * height && row < p->n_rows; row++)
        price += row_price(p, k, row);
    return price;
}

/* The best tile: cost per newly covered entry, operator and group of rows. */
typedef struct {
    double average;
    int64_t k, group;
} choice;

/* Find the smallest cost per newly covered entry among the operators from `first` to `last`. */
static choice best_of(tile_planner *p, int64_t first, int64_t last)
{
    choice best = {INFINITY, -1, -1};
    for (int64_t k = first; k < last; k++)
        for (int64_t group = 0; group < asp_tile_groups(p, k); group++) {
            const asp_tile_operator *one = &p->operators[k];
            int64_t gain = one->family == CSR ? p->row_left[group] : p->top[k * p->options->window + group];
            if (one->family != CSR) {
                while (gain > 0 && *asp_tile_list(p, k, group, gain) < 0)
                    gain--;
                p->top[k * p->options->window + group] = gain;
            }
            if (gain <= 0)
                continue;
            const double own = one->tile + (one->family == CSR ? one->entry * (double)gain : 0.0);
            const double average = (own + group_price(p, k, group)) / (double)gain;
            if (average < best.average)
                best = (choice){average, k, group};
        }
    return best;
}

/* Mark entry e as covered by operator k and update the gains of all tiles that contain it. */
static void cover(tile_planner *p, int64_t k, int64_t e)
{
    if (p->owner[e] >= 0)
        return;
    p->owner[e] = (int32_t)k;
    p->row_left[p->row_of[e]]--;
    p->n_left--;
    for (int64_t other = 0; other < p->n_operators; other++) {
        if (p->operators[other].family == CSR)
            continue;
        const int32_t at = p->tile_of[other * p->n_entries + e];
        if (at < 0)
            continue;
        asp_leave_list(p, other, at);
        p->tiles[other * p->n_entries + at].gain--;
        asp_join_list(p, other, at);
    }
}

/* Add the chosen tile to the plan. */
static void take(tile_planner *p, const choice *one)
{
    const int64_t k = one->k, group = one->group, n = p->n_entries, height = asp_tile_height(&p->operators[k]);
    const asp_tile_operator *operator = &p->operators[k];
    p->tiles_cost += operator->tile + (operator->family == CSR ? operator->entry * (double)p->row_left[group] : 0.0);
    p->n_taken++;
    for (int64_t row = group * height; row < (group + 1) * height && row < p->n_rows; row++)
        p->touched[k * p->options->window + row]++;
    if (operator->family == CSR) {
        for (int64_t e = p->row_begin[group]; e < p->row_begin[group + 1]; e++)
            cover(p, k, e);
        return;
    }
    const int32_t at = *asp_tile_list(p, k, group, p->top[k * p->options->window + group]);
    if (operator->family == BLOCK) {
        const int32_t *begin = p->begin + k * (n + 1), *order = p->order + k * n;
        for (int32_t place = begin[at]; place < begin[at + 1]; place++)
            cover(p, k, order[place]);
    } else {
        for (int64_t e = at; e < p->row_begin[group + 1]; e++)
            if (p->tile_of[k * n + e] == at)
                cover(p, k, e);
    }
}

/* Return the cost of writing rows in the current plan. */
static double rows_cost(const tile_planner *p)
{
    double cost = 0.0;
    for (int64_t row = 0; row < p->n_rows; row++) {
        int64_t n = 0;
        for (int64_t k = 0; k < p->n_operators; k++)
            n += p->touched[k * p->options->window + row] > 0;
        if (n)
            cost += p->options->first_row + p->options->further_row * (double)(n - 1);
    }
    return cost;
}

/* Return the number of rows that operator k writes when it computes the whole window. */
static int64_t rows_alone(const tile_planner *p, int64_t k)
{
    const int64_t height = asp_tile_height(&p->operators[k]);
    int64_t n = 0;
    for (int64_t first = 0; first < p->n_rows; first += height) {
        const int64_t last = first + height < p->n_rows ? first + height : p->n_rows;
        n += p->row_begin[first] < p->row_begin[last] ? last - first : 0;
    }
    return n;
}

/* Return the cost of the whole window computed by operator k, a block or CSR. */
static double alone(const tile_planner *p, int64_t k)
{
    const asp_tile_operator *one = &p->operators[k];
    const int64_t n_rows = rows_alone(p, k), n_tiles = one->family == CSR ? n_rows : p->n_tiles[k];
    const double entries = one->family == CSR ? one->entry * (double)p->n_entries : 0.0;
    return one->tile * (double)n_tiles + entries + p->options->first_row * (double)n_rows;
}

/* Replace the window's plan by operator k alone. */
static void replace_all(tile_planner *p, int64_t k)
{
    memset(p->touched, 0, (size_t)(p->n_operators * p->options->window) * sizeof *p->touched);
    const int64_t height = asp_tile_height(&p->operators[k]);
    for (int64_t first = 0; first < p->n_rows; first += height) {
        const int64_t last = first + height < p->n_rows ? first + height : p->n_rows;
        for (int64_t row = first; row < last; row++)
            p->touched[k * p->options->window + row] = p->row_begin[first] < p->row_begin[last];
    }
    for (int64_t e = 0; e < p->n_entries; e++)
        p->owner[e] = (int32_t)k;
    p->tiles_cost = alone(p, k) - p->options->first_row * (double)rows_alone(p, k);
    p->n_taken = p->operators[k].family == CSR ? rows_alone(p, k) : p->n_tiles[k];
    p->n_left = 0;
}

/* Replace all tiles chosen so far by blocks of one shape if this covers the remaining entries at a cost of at most c
 * each; return whether it was done. */
static int withdraw(tile_planner *p, double c)
{
    if (!p->n_taken)
        return 0;
    const double before = p->tiles_cost + rows_cost(p);
    double least = INFINITY;
    int64_t best = -1;
    for (int64_t k = 0; k < p->n_operators; k++) {
        if (p->operators[k].family != BLOCK)
            continue;
        const double change = (alone(p, k) - before) / (double)p->n_left;
        if (change <= c + EPSILON && change < least)
            least = change, best = k;
    }
    if (best >= 0)
        replace_all(p, best);
    return best >= 0;
}

/* Plan the current window. */
static void plan_window(tile_planner *p)
{
    const asp_tile_options *options = p->options;
    for (int64_t k = 0; k < p->n_operators; k++) {
        for (int64_t group = 0; group < options->window; group++)
            p->top[k * options->window + group] = 0;
        if (p->operators[k].family == BLOCK)
            asp_cut_blocks(p, k);
        if (p->operators[k].family == ELL)
            for (int64_t row = 0; row < p->n_rows; row++)
                asp_cut_runs(p, k, row);
    }
    for (int64_t iterations = 1; p->n_left > 0; iterations++) {
        choice best = best_of(p, 0, p->n_operators);
        p->n_iterations++;
        if (options->withdraw && withdraw(p, best.average))
            break;
        const double limit = options->r * best.average + EPSILON;
        const int64_t first = options->local ? best.k : 0, last = options->local ? best.k + 1 : p->n_operators;
        do
            take(p, &best);
        while (options->batches && p->n_left > 0 && (best = best_of(p, first, last)).average <= limit);
        for (int64_t k = 0; k < p->n_operators && iterations < options->levels; k++)
            for (int64_t row = 0; p->operators[k].family == ELL && row < p->n_rows; row++)
                asp_cut_runs(p, k, row);
    }
    for (int64_t sweep = 0; options->withdraw && sweep < options->sweeps && p->n_entries; sweep++) {
        double least = p->tiles_cost + rows_cost(p) - EPSILON;
        int64_t better = -1;
        for (int64_t k = 0; k < p->n_operators; k++)
            if (p->operators[k].family != ELL && alone(p, k) < least)
                least = alone(p, k), better = k;
        if (better < 0)
            break;
        replace_all(p, better);
    }
}

/* Allocate the state for windows of up to `most` entries; return whether that succeeded. */
static int allocate(tile_planner *p, int64_t most, int64_t window)
{
    const int64_t n = p->n_operators, lists = n * window * (p->most_gain + 1);
    p->row_begin = malloc((size_t)(window + 1) * sizeof *p->row_begin);
    p->columns = malloc((size_t)(most + 1) * sizeof *p->columns);
    p->row_of = malloc((size_t)(most + 1) * sizeof *p->row_of);
    p->row_left = malloc((size_t)window * sizeof *p->row_left);
    p->touched = malloc((size_t)(n * window) * sizeof *p->touched);
    p->tile_of = malloc((size_t)(n * most + 1) * sizeof *p->tile_of);
    p->tiles = malloc((size_t)(n * most + 1) * sizeof *p->tiles);
    p->begin = malloc((size_t)(n * (most + 1)) * sizeof *p->begin);
    p->order = malloc((size_t)(n * most + 1) * sizeof *p->order);
    p->n_tiles = calloc((size_t)n, sizeof *p->n_tiles);
    p->heads = malloc((size_t)lists * sizeof *p->heads);
    p->top = malloc((size_t)(n * window) * sizeof *p->top);
    p->keys = malloc((size_t)(most + 1) * sizeof *p->keys);
    return p->row_begin && p->columns && p->row_of && p->row_left && p->touched && p->tile_of && p->tiles && p->begin && p->order &&
           p->n_tiles && p->heads && p->top && p->keys;
}

static void release(tile_planner *p)
{
    void *all[] = {p->row_begin, p->columns, p->row_of, p->row_left, p->touched, p->tile_of, p->tiles,
                   p->begin, p->order, p->n_tiles, p->heads, p->top, p->keys};
    for (size_t at = 0; at < sizeof all / sizeof *all; at++)
        free(all[at]);
}

static int64_t index_at(int itype, const void *array, int64_t at)
{
    return itype == 0 ? ((const int32_t *)array)[at] : ((const int64_t *)array)[at];
}

/* Load the rows from `first` on, with nothing chosen yet. */
static void load_window(tile_planner *p, int itype, int64_t first, int64_t n_rows, const void *indptr, const void *indices, int32_t *owner)
{
    const int64_t window = p->options->window, begin = index_at(itype, indptr, first);
    p->n_rows = first + window < n_rows ? window : n_rows - first;
    p->n_entries = p->n_left = index_at(itype, indptr, first + p->n_rows) - begin;
    p->n_taken = p->n_iterations = 0;
    p->tiles_cost = 0.0;
    p->owner = owner + begin;
    for (int64_t row = 0; row <= p->n_rows; row++)
        p->row_begin[row] = index_at(itype, indptr, first + row) - begin;
    for (int64_t row = 0; row < p->n_rows; row++) {
        p->row_left[row] = p->row_begin[row + 1] - p->row_begin[row];
        for (int64_t e = p->row_begin[row]; e < p->row_begin[row + 1]; e++) {
            p->row_of[e] = (int32_t)row;
            p->columns[e] = index_at(itype, indices, begin + e);
            p->owner[e] = -1;
        }
    }
    const int64_t n = p->n_operators;
    memset(p->touched, 0, (size_t)(n * window) * sizeof *p->touched);
    memset(p->tile_of, 0xff, (size_t)(n * p->n_entries) * sizeof *p->tile_of);
    memset(p->heads, 0xff, (size_t)(n * window * (p->most_gain + 1)) * sizeof *p->heads);
}

int asp_plan_tiles(int itype, int64_t n_rows, const void *indptr, const void *indices, const asp_tile_operator *operators,
                   int64_t n_operators, const asp_tile_options *options, int32_t *owner, double *totals, double *single)
{
    tile_planner p = {.operators = operators, .options = options, .n_operators = n_operators, .most_gain = 1};
    int64_t most = 0;
    for (int64_t k = 0; k < n_operators; k++) {
        const int64_t cells = operators[k].family == BLOCK ? operators[k].r * operators[k].c : operators[k].c;
        p.most_gain = cells > p.most_gain ? cells : p.most_gain;
        single[k] = 0.0;
    }
    for (int64_t first = 0; first < n_rows; first += options->window) {
        const int64_t last = first + options->window < n_rows ? first + options->window : n_rows;
        const int64_t n = index_at(itype, indptr, last) - index_at(itype, indptr, first);
        most = n > most ? n : most;
    }
    totals[0] = totals[1] = totals[2] = 0.0;
    const int done = most < INT32_MAX && allocate(&p, most, options->window);
    for (int64_t first = 0; done && first < n_rows; first += options->window) {
        load_window(&p, itype, first, n_rows, indptr, indices, owner);
        if (!p.n_entries)
            continue;
        plan_window(&p);
        totals[0] += p.tiles_cost + rows_cost(&p);
        totals[1] += (double)p.n_iterations;
        totals[2] += (double)p.n_taken;
        for (int64_t k = 0; k < n_operators; k++)
            single[k] += operators[k].family == ELL ? 0.0 : alone(&p, k);
    }
    release(&p);
    return done ? 0 : -1;
}
