/* A node of a regression tree. A split sends rows with rows[feature] <= at to the left; a leaf has the feature -1 and
 * adds `at`. Children come after their parents (tuner/learned/trees.py). */
typedef struct asp_tree_node { float at; int32_t left, right, feature; } asp_tree_node;
/* Compute out[p] = base + the leaves that program ids[p] (NULL: p) reaches in each of n_trees trees, from roots[t] on.
 * rows (*, n_columns) holds the programs' codes. Uses one thread. */
void asp_trees_predict(int64_t n, const int32_t *ids, const int16_t *rows, int64_t n_columns, int64_t n_trees,
                       const int32_t *roots, const asp_tree_node *nodes, float base, float *out);
/* Resolve all splits on a pattern's n_sketch features. `kept` (room for n) receives the nodes that trees still reach,
 * in order, and `kept_roots` the trees' roots; features are renumbered from n_sketch on. `target` is scratch memory
 * for n elements. Returns the number of kept nodes. */
int64_t asp_trees_decide(int64_t n, const asp_tree_node *nodes, int64_t n_trees, const int32_t *roots,
                         const float *sketch, int64_t n_sketch, int32_t *target, asp_tree_node *kept,
                         int32_t *kept_roots);
