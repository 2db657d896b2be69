/* Prediction by regression trees; see trees_api.h. */
#include <stddef.h>
#include <stdint.h>

#include "trees_api.h"

enum { TOGETHER = 16 }; /* programs that traverse a tree one after the other: its nodes stay in the L1 cache */

void asp_trees_predict(int64_t n, const int32_t *ids, const int16_t *rows, int64_t n_columns, int64_t n_trees,
                       const int32_t *roots, const asp_tree_node *nodes, float base, float *out)
{
    for (int64_t first = 0; first < n; first += TOGETHER) {
        const int64_t count = n - first < TOGETHER ? n - first : TOGETHER;
        const int16_t *row[TOGETHER];
        double sum[TOGETHER];
        for (int64_t p = 0; p < count; ++p) {
            row[p] = rows + (ids ? (int64_t)ids[first + p] : first + p) * n_columns;
            sum[p] = base;
        }
        for (int64_t t = 0; t < n_trees; ++t) {
            const asp_tree_node *root = nodes + roots[t];
            for (int64_t p = 0; p < count; ++p) {
                const asp_tree_node *at = root;
                while (at->feature >= 0) at = nodes + ((float)row[p][at->feature] <= at->at ? at->left : at->right);
                sum[p] += at->at;
            }
        }
        for (int64_t p = 0; p < count; ++p) out[first + p] = (float)sum[p];
    }
}

int64_t asp_trees_decide(int64_t n, const asp_tree_node *nodes, int64_t n_trees, const int32_t *roots,
                         const float *sketch, int64_t n_sketch, int32_t *target, asp_tree_node *kept,
                         int32_t *kept_roots)
{
    /* Children come after their parents, so in reverse order a child's target is known. */
    for (int64_t i = n - 1; i >= 0; --i) {
        const asp_tree_node *one = nodes + i;
        const int is_decided = one->feature >= 0 && one->feature < n_sketch;
        target[i] = is_decided ? target[sketch[one->feature] <= one->at ? one->left : one->right] : (int32_t)i;
        kept[i].feature = 0; /* set to 1 if the node is reached */
    }
    for (int64_t t = 0; t < n_trees; ++t) kept[target[roots[t]]].feature = 1;
    for (int64_t i = 0; i < n; ++i)
        if (kept[i].feature && nodes[i].feature >= 0)
            kept[target[nodes[i].left]].feature = kept[target[nodes[i].right]].feature = 1;
    /* Number the kept nodes, then move each to its number. */
    int64_t n_kept = 0;
    for (int64_t i = 0; i < n; ++i) {
        kept[i].left = (int32_t)n_kept;
        n_kept += kept[i].feature;
    }
    for (int64_t t = 0; t < n_trees; ++t) kept_roots[t] = kept[target[roots[t]]].left;
    for (int64_t i = 0; i < n; ++i) {
        if (!kept[i].feature)
            continue;
        asp_tree_node moved = nodes[i];
        const int64_t at = kept[i].left;
        if (moved.feature >= 0) {
            moved.left = kept[target[moved.left]].left;
            moved.right = kept[target[moved.right]].left;
            moved.feature -= (int32_t)n_sketch;
        }
        kept[at] = moved; /* at <= i: the node there was moved before, and children come later */
    }
    return n_kept;
}
