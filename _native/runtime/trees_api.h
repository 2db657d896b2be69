/* A node of a regression tree: a split sends rows[feature] <= at to the left; a leaf has the feature -1 and adds `at`.
 * Children come after their parents (tuner/trees.py). */
typedef struct asp_tree_node { float at; int32_t left, right, feature; } asp_tree_node;
/* out[p] = base + the leaves that program ids[p] (NULL: p) reaches in each of n_trees trees, from roots[t] on;
 * rows (*, n_columns) are the programs' codes. One thread. */
void asp_trees_predict(int64_t n, const int32_t *ids, const int16_t *rows, int64_t n_columns, int64_t n_trees,
                       const int32_t *roots, const asp_tree_node *nodes, float base, float *out);
