"""Tests of the switch from light to complete matrices: subclasses, odd arrays, deep recursion and threads."""

from __future__ import annotations

import pytest

from tests.light.test_light import printed, run

SUBCLASSES = {
    "makes its own arguments": """
class Own(type(A)):
    def __init__(self, n):
        calls.append(n)
        super().__init__((n, n))
print(json.dumps([Own(5).shape == (5, 5), calls == [5]]))
""",
    "computes twice the sum": """
class Own(type(A)):
    def sum(self, *args, **how):
        return 2 * super().sum(*args, **how)
made = Own(m)
light.LOADING_NS = 0
print(json.dumps([bool(np.isclose(made.sum(), 2 * m.sum())), light.is_complete]))
""",
    "computes three times the product": """
class Own(type(A)):
    def _matmul_dispatch(self, other, *args):
        return 3 * super()._matmul_dispatch(other, *args)
made = Own(m)
light.LOADING_NS = 0
print(json.dumps([bool(np.allclose(made @ x, 3 * (m @ x))), light.is_complete]))
""",
    "counts parts, copies and resizes": """
class Own(type(A)):
    def __getitem__(self, key):
        calls.append("part")
        return super().__getitem__(key)
    def __copy__(self):
        calls.append("copy")
        return super().__copy__()
    def resize(self, *shape):
        calls.append("resize")
        super().resize(*shape)
made = Own(m)
light.LOADING_NS = 0
made[2:3], made.__copy__(), made.resize(3, 4)
print(json.dumps([calls == ["part", "copy", "resize"], made.shape == (3, 4)]))
""",
    "asks for what SciPy has not": """
class Own(type(A)):
    def to_scipy(self):
        calls.append("to_scipy")
        return super().to_scipy()
print(json.dumps([type(Own(m).to_scipy()) is sps.csr_array, calls == ["to_scipy"]]))
""",
    "sets values": """
class Own(type(A)):
    @property
    def data(self):
        return super().data
    @data.setter
    def data(self, value):
        calls.append("data")
        type(A).data.fset(self, value)
made = Own(m)
made.data = list(range(made.nnz))  # not an array: the library is loaded
print(json.dumps([calls == ["data"], list(made.data) == list(range(made.nnz))]))
""",
}


@pytest.mark.parametrize("lines", SUBCLASSES.values(), ids=SUBCLASSES)
def test_methods_of_subclasses_run_once(lines):
    assert printed(f"calls = []{lines}") == [True, True]


@pytest.mark.parametrize("statement", ["A @ x", "A @ A.T", "A.T @ y", "A.toarray()", "A.diagonal()", "A[3:5]"])
def test_row_starts_of_another_number_are_not_read_by_the_loops_of_scipy(statement):
    lines = f"""
A.indptr = np.array([0, A.nnz], dtype=A.indptr.dtype)
def outcome():
    try:
        {statement}
    except ValueError as error:
        return type(error).__name__
first = outcome()
light.complete()
print(json.dumps([first, outcome()]))
"""
    first, later = printed(lines)
    assert first == later == "StructureError"


def test_values_of_other_byte_order_give_results_of_the_usual_one():
    lines = """
A.data = A.data.astype(A.dtype.newbyteorder())
y = A @ x.astype(A.dtype)
print(y.dtype.isnative, bool(np.allclose(y, m @ x)))
"""
    assert run(lines) == "True True"


@pytest.mark.parametrize(
    "change",
    [
        "A.indices = A.indices.astype(float)",
        "A.indptr = A.indptr.astype(float)",
        "A.indptr = A.indptr[::-1]",
        "A.indices = np.append(A.indices, 0)",
        "A.data = np.append(A.data, 0)",
    ],
)
def test_the_transpose_after_an_assignment_is_that_of_scipy(change):
    lines = f"""
def outcome(A):
    {change}
    try:
        return np.allclose(A.T @ y, m.T @ y)
    except ValueError:
        return "ValueError"
print(json.dumps([bool(outcome(m.copy()) == outcome(A))]))
"""
    assert printed(lines) == [True]


def test_a_product_deep_in_a_recursion_does_not_need_the_frames_of_loading():
    lines = """
def deep(n, matrix):
    return deep(n - 1, matrix) if n else matrix @ x
def deepest(matrix):
    for n in range(190, 0, -1):
        try:
            deep(n, matrix)
            return n
        except RecursionError:
            pass
light.LOADING_NS = 0
sys.setrecursionlimit(200)
scipys, ours = deepest(m), deepest(A)
is_light = not light.is_complete
print(json.dumps([ours > scipys - 10, is_light, bool(np.allclose(A @ x, m @ x)), light.is_complete]))
"""
    assert printed(lines) == [True] * 4


def test_a_matrix_that_another_thread_completes_while_it_is_made_is_returned():
    lines = """
from autosparse.light import adoption
register = adoption.register
def completed_meanwhile(made, rows, shape):
    is_light = register(made, rows, shape)
    light.complete()
    return is_light
adoption.register = completed_meanwhile
B = asp.csr(m)
print(json.dumps([light.is_complete, bool(np.allclose(B @ x, m @ x))]))
"""
    assert printed(lines) == [True, True]


def test_signal_handlers_and_threads_use_matrices_while_the_library_is_loaded():
    lines = """
seen = []
class Handler:
    def find_spec(self, name, path=None, target=None):
        if name == "autosparse.arrays.plain":
            made = asp.csr(m)
            seen.extend([made @ x, A @ x, made.T.T @ x, made[:, :] @ x])
sys.meta_path.insert(0, Handler())
light.LOADING_NS = 0
y = A @ x
print(json.dumps([len(seen), all(np.allclose(one, m @ x) for one in seen), light.is_complete]))
"""
    assert printed(lines) == [4, True, True]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("name", ["indices", "indptr", "data"])
def test_arrays_that_another_thread_replaces_after_their_check_are_not_read_unchecked(name, native):
    """The thread is simulated by the clock, which is read between the check of the arrays and the product."""
    lines = f"""
from autosparse.light import matrices
if {native}:
    light.RUNTIME_NS = light.MIN_TERMS = 0
clock, wild = matrices.perf_counter_ns, getattr(A, {name!r}).copy()
if {name!r} == "data":
    wild = wild[:-9]
else:
    wild[3] = 35
replaced, written = [], []
def replace():
    if not replaced:
        replaced.append(setattr(A, {name!r}, wild))
    return clock()
x = np.append(x, np.full(9, np.nan))[:30]  # what lies behind it is no number
right = m @ x
matrices.perf_counter_ns = matrices.adoption.perf_counter_ns = replace
found = [bool(np.allclose(A @ x, right)), bool(replaced)]
matrices.perf_counter_ns = matrices.adoption.perf_counter_ns = clock
try:
    A @ x
    found.append(False)
except ValueError:
    found.append(True)
print(json.dumps(found))
"""
    assert printed(lines) == [True, True, True]


@pytest.mark.parametrize("is_complete", [False, True])
@pytest.mark.parametrize("answer", ["return name", "raise KeyError(name)"])
def test_classes_that_answer_every_attribute_are_made_and_multiplied(answer, is_complete):
    lines = f"""
def any_attribute(self, name):
    {answer}
if {is_complete}:
    light.complete()
found = []
for kind in (type(A), type(A.T), sps.csr_array, sps.csc_array):
    made = type("Own", (kind,), {{"__getattr__": any_attribute}})
    for source in (m, m.toarray()):
        M = made(source, shape=m.shape)
        found.append(bool(np.allclose(M @ x, m @ x) and np.allclose((A.T @ M).toarray(), (m.T @ m).toarray())))
    found.append({answer!r} != "return name" or bool(np.allclose(asp.einsum("ij,j->i", M, x), m @ x)))
print(json.dumps(found))
"""
    assert printed(lines) == [True] * 12


def test_a_method_of_scipy_may_return_a_matrix_that_was_never_light() -> None:
    """Check a conversion during which the library is loaded, as another thread may do."""
    lines = """
converted = m.tocsc()
def tocsc(self, *args, **how):
    light.complete()
    return asp.csc(converted)
type(A)._plain_class.tocsc = tocsc
found = A.tocsc()
print(json.dumps(bool((found != converted).nnz == 0)))
"""
    assert printed(lines) is True


def test_indices_that_only_a_weak_reference_reaches_are_checked() -> None:
    lines = """
import weakref
reference = weakref.ref(A.indices)
A @ x, A @ x
reference()[0] = 1 << 30
try:
    A @ x
except ValueError as error:
    print(type(error).__name__)
"""
    assert run(lines) == "StructureError"
