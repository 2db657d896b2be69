/* A node of a regression tree: a split sends rows[feature] <= at to the left; a leaf has the feature -1 and adds `at`.
 * Children come after their parents (tuner/learned/trees.py). */
typedef struct asp_tree_node { float at; int32_t left, right, feature; } asp_tree_node;
/* out[p] = base + the leaves that program ids[p] (NULL: p) reaches in each of n_trees trees, from roots[t] on;
 * rows (*, n_columns) are the programs' codes. One thread. */
void asp_trees_predict(int64_t n, const int32_t *ids, const int16_t *rows, int64_t n_columns, int64_t n_trees,
                       const int32_t *roots, const asp_tree_node *nodes, float base, float *out);
/* Decide all splits on a pattern's `n_sketch` numbers: the nodes that trees still reach, in their order, into `kept`
 * (room for n), and where trees begin into `kept_roots`; features count from n_sketch on. `target`: scratch, n. Returns how
 * many nodes are kept. */
int64_t asp_trees_decide(int64_t n, const asp_tree_node *nodes, int64_t n_trees, const int32_t *roots,
                         const float *sketch, int64_t n_sketch, int32_t *target, asp_tree_node *kept,
                         int32_t *kept_roots);
