"""Short programs on graphs: ranks, walks, searches, triangles, and SciPy's csgraph."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csgraph

from shortlib.inputs import chain, digraph, graph, vector
from shortlib.program import dense, load, short


@short(lambda: {"A": digraph(2000, 5.0)})
def pagerank(sp: Any, A: Any) -> Any:
    """Rank pages by thirty power steps."""
    A = load(sp, A)
    n = A.shape[0]
    out = np.asarray(A.sum(axis=1)).ravel()
    P = (sp.diags(1 / np.maximum(out, 1)) @ A).T.tocsr()
    x = np.full(n, 1 / n)
    for _ in range(30):
        x = 0.85 * (P @ x) + 0.15 / n
        x /= x.sum()
    return x


@short(lambda: {"A": digraph(10_000, 8.0, matrix=True)})
def pagerank_matrix(sp: Any, A: Any) -> Any:
    """Rank pages until the change is small, with a csr_matrix and `*`."""
    A = load(sp, A)
    n = A.shape[0]
    out = np.array(A.sum(axis=1)).flatten()
    x, weights = np.ones(n) / n, 1 / np.maximum(out, 1)
    for _ in range(40):
        new = 0.85 * (A.T * (x * weights)) + 0.15 / n
        change, x = abs(new - x).sum(), new
        if change < 1e-8:
            break
    return x


@short(lambda: {"A": digraph(2000, 5.0)})
def hits(sp: Any, A: Any) -> Any:
    """Compute hubs and authorities."""
    A, h = load(sp, A), np.ones(A.shape[0])
    for _ in range(25):
        a = A.T @ h
        a /= np.linalg.norm(a)
        h = A @ a
        h /= np.linalg.norm(h)
    return h, a


@short(lambda: {"A": digraph(1000, 4.0)})
def katz(sp: Any, A: Any) -> Any:
    """Compute Katz centralities by fixed-point steps."""
    A = load(sp, A)
    x = np.zeros(A.shape[0])
    for _ in range(30):
        x = 0.02 * (x @ A) + 1
    return x


@short(lambda: {"A": graph(1500, 6.0)})
def eigenvector_centrality(sp: Any, A: Any) -> Any:
    """Compute centralities by power steps on A + I."""
    A = load(sp, A) + sp.eye_array(A.shape[0], format="csr")
    x = np.ones(A.shape[0])
    for _ in range(40):
        x = A @ x
        x /= np.linalg.norm(x)
    return x


@short(lambda: {"A": graph(2000, 6.0)})
def bfs_levels(sp: Any, A: Any) -> Any:
    """Find levels of a breadth-first search by products with a boolean vector."""
    A = load(sp, A)
    level, front = np.full(A.shape[0], -1), np.zeros(A.shape[0])
    front[0], depth = 1, 0
    while front.any():
        level[front > 0] = depth
        front = ((A @ front > 0) & (level < 0)).astype(float)
        depth += 1
    return level


@short(lambda: {"A": graph(800, 6.0)})
def bfs_neighbours(sp: Any, A: Any) -> Any:
    """Search a graph node by node through indices and indptr."""
    A = load(sp, A)
    seen, queue = {0}, [0]
    for node in queue:
        for other in A.indices[A.indptr[node] : A.indptr[node + 1]]:
            if other not in seen:
                seen.add(int(other))
                queue.append(int(other))
    return np.array(queue)


@short(lambda: {"A": graph(300, 6.0)})
def neighbours_by_rows(sp: Any, A: Any) -> Any:
    """Count second neighbours of each node by rows A[[i]]."""
    A = load(sp, A)
    return np.array([A[A[[i]].indices].sum() for i in range(A.shape[0])])


@short(lambda: {"P": chain(500, 6)})
def markov_stationary(sp: Any, P: Any) -> Any:
    """Find the stationary distribution by x @ P."""
    P = load(sp, P)
    x = np.full(P.shape[0], 1 / P.shape[0])
    for _ in range(100):
        x = x @ P
    return x


@short(lambda: {"P": chain(150, 4)})
def markov_power(sp: Any, P: Any) -> Any:
    """Compute probabilities after eight steps by squaring."""
    P = load(sp, P)
    for _ in range(3):
        P = P @ P
    return P.sum(axis=0), P.diagonal()


@short(lambda: {"P": chain(300, 4)})
def markov_matrix_power(sp: Any, P: Any) -> Any:
    """Compute probabilities after four steps by matrix_power."""
    from scipy.sparse.linalg import matrix_power

    return matrix_power(load(sp, P), 4).toarray()


@short(lambda: {"P": chain(400, 5)})
def absorbing_chain(sp: Any, P: Any) -> Any:
    """Solve for the expected time until absorption."""
    from scipy.sparse.linalg import spsolve

    P = load(sp, P)[1:, 1:]
    return spsolve((sp.eye_array(P.shape[0]) - P).tocsc(), np.ones(P.shape[0]))


@short(lambda: {"P": chain(200, 5)})
def random_walks(sp: Any, P: Any) -> Any:
    """Simulate walks, drawing the next state from a dense row."""
    P, rng, state, path = load(sp, P), np.random.default_rng(0), 0, []
    for _ in range(60):
        state = rng.choice(P.shape[0], p=P[[state]].toarray().ravel())
        path.append(state)
    return np.array(path)


@short(lambda: {"A": graph(600, 8.0)})
def triangles(sp: Any, A: Any) -> Any:
    """Count triangles by (A @ A).multiply(A)."""
    A = load(sp, A)
    return np.asarray((A @ A).multiply(A).sum(axis=1)).ravel() / 2


@short(lambda: {"A": graph(400, 8.0)})
def clustering_trace(sp: Any, A: Any) -> Any:
    """Compute a clustering coefficient from the trace of the cube."""
    A = load(sp, A)
    d = A.sum(axis=1)
    return (A @ A @ A).diagonal().sum() / (d * (d - 1)).sum()


@short(lambda: {"A": graph(500, 6.0)})
def jaccard(sp: Any, A: Any) -> Any:
    """Compute similarities of neighbourhoods."""
    A = load(sp, A)
    common = (A @ A.T).tocoo()
    d = np.asarray(A.sum(axis=1)).ravel()
    common.data = common.data / (d[common.row] + d[common.col] - common.data)
    return np.asarray(common.tocsr().sum(axis=1)).ravel()


@short(lambda: {"A": graph(1000, 5.0)})
def label_propagation(sp: Any, A: Any) -> Any:
    """Spread labels of thirty nodes over a graph."""
    A = load(sp, A)
    d = np.maximum(A.sum(axis=1), 1)
    Y = np.zeros((A.shape[0], 3))
    Y[np.arange(30), np.arange(30) % 3] = 1
    F = Y.copy()
    for _ in range(20):
        F = 0.9 * (A @ F) / d[:, None] + 0.1 * Y
    return F


@short(lambda: {"A": graph(1000, 5.0), "H": vector(1000, 16), "W": vector(16, 8)})
def graph_convolution(sp: Any, A: Any, H: Any, W: Any) -> Any:
    """Compute one layer of a graph network."""
    A = load(sp, A) + sp.eye_array(A.shape[0])
    d = 1 / np.sqrt(np.asarray(A.sum(axis=1)).ravel())
    S = sp.diags(d) @ A @ sp.diags(d)
    return np.maximum(S @ H @ W, 0)


@short(lambda: {"A": digraph(3000, 3.0)})
def components(sp: Any, A: Any) -> Any:
    """Label connected components by csgraph."""
    n, labels = csgraph.connected_components(load(sp, A), directed=False)
    return n, np.bincount(labels)


@short(lambda: {"A": digraph(3000, 3.0)})
def components_own(sp: Any, A: Any) -> Any:
    """Label connected components by the library's csgraph."""
    n, labels = sp.csgraph.connected_components(load(sp, A), directed=True, connection="strong")
    return n, np.sort(np.bincount(labels))


@short(lambda: {"A": digraph(1000, 4.0)})
def dijkstra(sp: Any, A: Any) -> Any:
    """Find shortest paths from five nodes."""
    found = csgraph.dijkstra(load(sp, A), indices=[0, 1, 2, 3, 4])
    return np.where(np.isinf(found), -1, found)


@short(lambda: {"A": digraph(1500, 4.0)})
def spanning_tree(sp: Any, A: Any) -> Any:
    """Compute the weight of a minimum spanning tree."""
    tree = csgraph.minimum_spanning_tree(load(sp, A))
    return tree.sum(), tree.nnz


@short(lambda: {"A": graph(800, 5.0)})
def csgraph_laplacian(sp: Any, A: Any) -> Any:
    """Multiply by the Laplacian that csgraph makes."""
    L = csgraph.laplacian(load(sp, A), normed=True)
    x = np.linspace(0, 1, L.shape[0])
    for _ in range(10):
        x = x - 0.3 * (L @ x)
    return x


@short(lambda: {"A": graph(400, 6.0)})
def cuthill_mckee(sp: Any, A: Any) -> Any:
    """Reorder a matrix and compute its bandwidth."""
    A = load(sp, A)
    order = csgraph.reverse_cuthill_mckee(A, symmetric_mode=True)
    B = A[order][:, order].tocoo()
    return np.abs(B.row - B.col).max()


@short(lambda: {"A": graph(500, 6.0), "groups": np.arange(500) % 7})
def modularity(sp: Any, A: Any, groups: Any) -> Any:
    """Compute the modularity of a partition by an indicator matrix."""
    A, n = load(sp, A), groups.size
    S = sp.csr_array((np.ones(n), (np.arange(n), groups)), shape=(n, 7))
    k = np.asarray(A.sum(axis=0)).ravel()
    e = dense(S.T @ A @ S) / A.sum()
    return np.trace(e) - ((S.T @ k / A.sum()) ** 2).sum()


@short(lambda: {"A": graph(600, 5.0)})
def k_core(sp: Any, A: Any) -> Any:
    """Remove nodes of degree below three until none is left."""
    A = load(sp, A)
    kept = np.arange(A.shape[0])
    while True:
        strong = np.asarray(A.sum(axis=1)).ravel() >= 3
        if strong.all():
            return kept
        A, kept = A[strong][:, strong], kept[strong]


@short(lambda: {"A": graph(300, 5.0), "x": vector(300)})
def ising_sweeps(sp: Any, A: Any, x: Any) -> Any:
    """Sample spins on a graph, a row of neighbours for each."""
    A, rng = load(sp, A), np.random.default_rng(0)
    spin = np.where(x > 0.5, 1.0, -1.0)
    for i in rng.integers(0, x.size, 300):
        field = spin[A.indices[A.indptr[i] : A.indptr[i + 1]]].sum()
        if rng.random() < 1 / (1 + np.exp(0.8 * spin[i] * field)):
            spin[i] *= -1
    return spin


@short(lambda: {"A": graph(1000, 5.0), "x": vector(1000)})
def epidemic(sp: Any, A: Any, x: Any) -> Any:
    """Simulate an epidemic: infection pressure is A @ infected."""
    A, rng, infected, ill = load(sp, A), np.random.default_rng(0), (x < 0.02).astype(float), []
    for _ in range(40):
        pressure = A @ infected
        new = rng.random(x.size) < 1 - np.exp(-0.1 * pressure)
        infected = np.where(rng.random(x.size) < 0.1, 0.0, np.maximum(infected, new))
        ill.append(infected.sum())
    return np.array(ill)
