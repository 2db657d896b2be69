#include <stddef.h>
#include <stdint.h>

#include "trees_api.h"

enum { TOGETHER = 16 }; /* programs that walk a tree one after the other: its nodes stay in the first cache */

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
