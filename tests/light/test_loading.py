"""Tests of when a program loads the C runtime and the library: how many modules, after how much work, for what."""

from __future__ import annotations

from typing import Final

import pytest
from autosparse._native import runtime_api
from autosparse.cache.accounts import rows

from autosparse import light
from autosparse.light import expressions
from tests.light.test_light import printed, run
from tests.scipy_versions import IS_RECENT

COUNT: Final = """
def n_modules():
    return sum(name.startswith("autosparse") and one.__name__ == name for name, one in list(sys.modules.items()))
"""
MAX_MODULES: Final = 7
"""Maximum number of modules that a program with a few products loads. Each costs 0.1 to 0.3 ms: it may only fall."""


def test_few_products_load_few_modules():
    lines = "A @ x, A.T @ y, A @ X, A[2:5], A.sum(axis=0)\nprint(n_modules(), '_cffi_backend' in sys.modules)"
    n_modules, has_runtime = run(COUNT + lines).split()
    assert int(n_modules) <= MAX_MODULES
    assert has_runtime == "False"


NEEDS_RUNTIME: Final = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")
WITHOUT_CFFI: Final = """
{first}
light.RUNTIME_NS = light.MIN_TERMS = 0
A = asp.csr(m)
A @ x
same = [np.allclose(A @ x, m @ x), np.allclose(A.T @ y, m.T @ y), np.allclose(A @ X, m @ X)]
found = [name in sys.modules for name in ("autosparse.light.native", "_cffi_backend", "autosparse.scalar")]
B = A @ A.T
same += [np.allclose(B.toarray(), (m @ m.T).toarray()), light.complete(), np.allclose(A @ x, m @ x)]
print(json.dumps([*map(bool, same), *found]))
"""
"""Program whose products with dense operands need the C runtime. Sparse results and the library import it by cffi."""


@pytest.mark.skipif(runtime_api.extension is None, reason="the extension module was not built")
@pytest.mark.parametrize("first", ["", "import autosparse._native as n; n.__path__ = ['/nowhere', *n.__path__]"])
def test_products_call_the_runtime_without_cffi(first):
    """The second program has no file of the runtime's usual name: cffi's module finds it."""
    assert printed(WITHOUT_CFFI.format(first=first)) == [True] * 6 + [True, bool(first), False]


def test_products_do_without_an_extension_module_of_an_older_build():
    lines = """
older = type("Module", (), {"HEADERS": "of an older build", "FUNCTIONS": (), "connect": None})
sys.modules["autosparse._native._extension"] = older
light.RUNTIME_NS = light.MIN_TERMS = 0
A @ x
print(json.dumps([bool(np.allclose(A @ x, m @ x)), bool(np.allclose((A @ A.T).toarray(), (m @ m.T).toarray()))]))
"""
    assert printed(lines) == [True, True]


LINES: Final = ("A[3]", "A[:, np.int32(2)]") if IS_RECENT else ()
"""Methods that select one row or column of an array, which SciPy refuses before 1.15."""
CLOCK: Final = """
from autosparse.light import matrices
from tests.conftest import REPOSITORY
now_ns = 0
def tick():
    global now_ns
    now_ns += 1000
    return now_ns
light.perf_counter_ns = matrices.perf_counter_ns = matrices.adoption.perf_counter_ns = tick
"""


NOT_LEFT: Final = "light.adoption.MAX_SCATTERED = 0\n"


@pytest.mark.parametrize(
    ("product", "share", "limits"),
    [
        *((method, 1, NOT_LEFT) for method in ("A @ x", "A.T @ y", "A @ X", "A @ x.astype(int)")),
        *((method, light.LOOP_SHARE, "") for method in ("A @ B", "A.T @ y", "A.tocsc()")),
        ("N @ n_ones", light.LOOP_SHARE, "N, n_ones = asp.csr(m.astype(int)), np.ones(30, int)\n"),
        *(
            pytest.param(product, share, f"light.RUNTIME_NS = light.MIN_TERMS = 0\n{limits}", marks=NEEDS_RUNTIME)
            for product, share, limits in (
                ("A @ x", light.LOOP_SHARE, ""),
                ("A @ B", light.SPARSE_SHARE, ""),
                ("A @ B.T.tocsc().T", light.SPARSE_SHARE, ""),
            )
        ),
    ],
)  # fmt: skip
def test_the_library_is_loaded_once_it_would_have_saved_as_much(product, share, limits):
    """Each takes 1,000 ns, of which a part counts; one more finds the time spent."""
    lines = f"n = 0\nwhile not light.is_complete:\n    {product}\n    n += 1\nprint(n)"
    assert run(f"{CLOCK}light.LOADING_NS = 3000\n{limits}{lines}") == str(3 * share + 1)


@pytest.mark.parametrize("text", ["ij,ij->ij", "ij,ij->i", "ij,ij,ij->ij", "ij,ij->"])
def test_elementwise_einsums_load_the_library_when_a_kernel_will_soon_pay(text):
    """The library computes them by SciPy's methods too, until it has compiled a kernel."""
    given = ", ".join("A" * (text.count(",") + 1))
    lines = f"n = 0\nwhile not light.is_complete:\n    asp.einsum({text!r}, {given})\n    n += 1\nprint(n)"
    clock = f"{CLOCK}from autosparse.light import expressions\nexpressions.perf_counter_ns = tick\n"
    share = f"light.LOADING_NS = 3 * (1000 // {expressions.KERNEL_SHARE})\n"
    assert run(f"{clock}{share}{lines}") == "4"


@NEEDS_RUNTIME
@pytest.mark.parametrize(("text", "given"), [("ij + ij -> ij", "S, S"), ("ij - ji -> ij", "S, S"), ("ij->ji", "S")])
def test_long_sums_and_transposes_of_an_einsum_hardly_count(text, given):
    """The runtime computes them as it does for the library, which would save nothing."""
    lines = f"""
from autosparse.light import expressions
expressions.perf_counter_ns = tick
light.LOADING_NS, light.LONG_SUM, S = 3000, 0, A[:30]
for _ in range(30):
    asp.einsum({text!r}, {given})
print(light.is_complete)
"""
    assert run(CLOCK + lines) == "False"


@pytest.mark.parametrize("part", ["A[2:4]", "A[[1, 2]]", "A[y > 5]", *LINES])
def test_half_of_the_time_of_selections_without_scipy_counts(part):
    lines = f"n = 0\nwhile not light.is_complete:\n    {part}\n    n += 1\nprint(n)"
    found = int(run(f"{CLOCK}light.LOADING_NS = 3000\n{lines}"))
    assert found == light.SELECTIONS + 3 * light.LOOP_SHARE + 1


@pytest.mark.parametrize("part", ["A[::2]", "A[:, np.array([3, 0])]", "A[y > 5, :4]"])
def test_selections_by_scipy_never_load_the_library(part):
    """The library would make these selections no faster."""
    lines = (
        f"light.LOADING_NS = 3000\nfor _ in range(30):\n    {part}\nprint(light.is_complete, light.part_of is not None)"
    )
    assert run(CLOCK + lines) == "False True"


@pytest.mark.parametrize(("dtype", "is_loaded"), [("int", False), ("bool", False), ("np.float32", True)])
def test_the_runtime_is_loaded_for_values_that_it_has_kernels_for(dtype, is_loaded):
    lines = f"""
light.RUNTIME_NS = light.MIN_TERMS = 0
A, x = asp.csr(m.astype({dtype})), x.astype({dtype})
A @ x, A @ x
print(json.dumps([bool(np.allclose(A @ x, m.astype({dtype}) @ x)), "autosparse.light.native" in sys.modules]))
"""
    assert printed(lines) == [True, is_loaded]


RESULTS: Final = ("A @ B", "A[2:4]", "A[[1, 2]]", "A.tocsc()", "A.T.tocsr()")


@pytest.mark.parametrize("result", RESULTS)
def test_results_of_sound_matrices_are_not_checked_again(result):
    lines = f"C = {result}\nlight.is_sound = None\nprint((C @ np.ones(C.shape[1])).size)"
    assert int(run(lines)) > 0


@pytest.mark.parametrize("text", ["ij->i", "ij->j", "ij->", "ij,ij->i"])
def test_operands_of_an_einsum_are_checked_once(text):
    given = ", ".join("A" * (text.count(",") + 1))
    lines = f"asp.einsum({text!r}, {given})\nlight.is_sound = None\nprint(np.size(asp.einsum({text!r}, {given})))"
    assert int(run(lines)) > 0


@pytest.mark.parametrize(
    ("product", "has_kernel"),
    [("A @ X", True), ("A @ (X + 1j)", True), ("asp.csr(m.astype(int)) @ X.astype(int)", False)],
)
def test_a_long_product_needs_the_runtime_or_the_library(product, has_kernel):
    lines = f"light.MAX_TERMS = light.MAX_LOOP_TERMS = 500\nA @ x\none = light.is_complete\n{product}\n"
    lines += "print(json.dumps([one, light.is_complete]))"
    assert printed(lines) == [False, not (has_kernel and runtime_api.available)]


@NEEDS_RUNTIME
@pytest.mark.parametrize(("limit", "is_complete"), [("1 << 23", False), ("m.nnz", True)])
def test_a_long_product_of_sparse_matrices_needs_the_runtime_before_the_library(limit, is_complete):
    lines = f"""
light.MAX_TERMS, light.MAX_LOOP_TERMS = m.nnz, {limit}
C, wanted = A @ A.T.tocsr(), m @ m.T.tocsr()
same = all(np.array_equal(getattr(C, name), getattr(wanted, name)) for name in ("indptr", "indices", "data"))
print(json.dumps(["autosparse.light.native" in sys.modules, light.is_complete, same]))
"""
    assert printed(lines) == [not is_complete, is_complete, True]


def test_the_runtime_is_loaded_once_products_have_taken_as_long():
    lines = """
light.RUNTIME_NS, light.MIN_TERMS = 6000, 0  # half of it for products of two sparse matrices
n = 0
while "autosparse.light.native" not in sys.modules:
    A[2:4], A @ B
    A @ x
    n += 1
print(json.dumps([n, light.is_complete]))
"""
    assert printed(CLOCK + lines) == [3, False]  # sparse products count half


PLANNED: Final = """
light.RUNTIME_NS = light.MIN_TERMS = light.LOOKUP_NS = 0
light.runtime()
for _ in range(2):
    {product}
is_light = not light.is_complete
light.complete()
A._cell.small_product_ns = 1 << 40  # a small product makes no dispatch state
{product}
from autosparse.cache.accounts import ledger, rows
from autosparse.dispatch import accounts, state as states
(state,) = A._cell.dispatcher.states.values()
key, spent = states.key_of(A._cell, state), rows.Spent(n_calls=1, product_s=1.0, n_processes=1, life_s=2.0)
note = rows.PlanNote(plan=bytes(16), stamp=bytes(16), flags={flags})
place = accounts.place_of(state.options)
written = rows.spent_row(key, spent, process=1, now=ledger.now()), rows.plan_row(key, note, process=1, now=ledger.now())
ledger.append(place[0], list(written))
print(is_light)
"""


@pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")
@pytest.mark.parametrize("product", ["A @ x", "A.T @ y", "A @ X"])
@pytest.mark.parametrize(("flags", "is_light"), [(rows.ASKED, False), (rows.ASKED | rows.NOTHING_FASTER, True)])
def test_a_remembered_plan_loads_the_library_after_a_product(product, flags, is_light, tmp_path):
    lines = PLANNED.format(product=product, flags=flags)
    assert run(lines, AUTOSPARSE_CACHE_DIR=str(tmp_path)) == "True"
    assert run(lines, AUTOSPARSE_CACHE_DIR=str(tmp_path)) == str(is_light)


@pytest.mark.parametrize("content", [b"", b"accounts"])
@pytest.mark.parametrize("product", ["A @ x", "A.T @ y", "A @ X"])
def test_a_plan_is_looked_up_once_without_the_runtime(product, content):
    lines = f"""
from autosparse import configured
light.LOOKUP_NS = n_read = 0
def content():
    global n_read
    n_read += 1
    return {content!r}
configured.accounts_content = content
for _ in range(3):
    {product}
counts = [n_read, light.rows_of(A).looked_up == configured.likely_threads(), "autosparse.light.native" in sys.modules]
light.n_threads = 1000  # as the runtime may say
for _ in range(3):
    {product}
print(json.dumps([*counts, n_read - counts[0]]))
"""
    n = 2 if content else 1  # the look-up reads it again
    assert printed(CLOCK + lines) == [n, True, False, n]


@pytest.mark.parametrize("lines", ["light.MAX_ENTRIES = 100", "import threadpoolctl", "asp.set_options(threads=1)"])
def test_other_programs_load_the_library_at_once(lines):
    if "threadpoolctl" in lines:
        pytest.importorskip("threadpoolctl")
    assert run(f"{lines}\nasp.csr(m)\nprint(light.is_complete)") == "True"


@pytest.mark.parametrize(
    "lines",
    [
        "from autosparse.linalg import splu, LinearOperator\ndir(asp.linalg), asp.linalg.__all__",
        "asp.install()\nassert type(sps.csr_array(m) + A) is asp.csr_array\nasp.uninstall()",
        "with asp.install():\n    import scipy.sparse.linalg\n    scipy.sparse.linalg.norm(A)",
    ],
)
def test_scipys_solvers_and_classes_need_no_library(lines):
    assert run(f"{lines}\nprint(light.is_complete, 'autosparse.config' in sys.modules)") == "False False"


def test_pickle_finds_the_classes_without_python_code():
    """Pickle replaces by PicklingError what code of the package raises, also what a signal handler raises there."""
    lines = "import pickle\ndef refuse(name): raise KeyboardInterrupt\nasp.__getattr__ = refuse\n"
    assert run(f"{lines}print(len(pickle.loads(pickle.dumps([A, A.T, A.tocoo(), A.tolil(), A.todok()]))))") == "5"


def test_settings_load_the_library_at_once():
    lines = "print(json.dumps([light.is_complete, bool((A @ x == asp.csr(m) @ x).all())]))"
    assert printed(lines, AUTOSPARSE_DETERMINISTIC="1") == [True, True]
    assert printed(lines) == [False, True]
    block = "with asp.options(deterministic=True):\n    B = A @ x\n"
    assert printed(f"{block}{lines}") == [True, True]


@pytest.mark.parametrize("name", ["AUTOSPARSE_MATRICES", "AUTOSPARSE_WACO", "AUTOSPARSE_STRICT"])
def test_variables_that_set_no_option_do_not_load_the_library(name):
    assert run("A @ x\nprint(light.is_complete)", **{name: "0"}) == "False"


def test_large_copies_own_huge_pages_without_the_runtime():
    """The extension module alone allocates them; resizing keeps the elements, and the runtime is connected later."""
    lines = """
m = sps.random_array((3_000, 3_000), density=0.02, format="csr", random_state=np.random.default_rng(1))
A, x = asp.csr(m), np.ones(3_000)
arrays = [light.rows_of(A).arrays[field] for field in range(3)]
core = sys.modules.get("numpy._core.multiarray") or sys.modules["numpy.core.multiarray"]
print(json.dumps([core.get_handler_name(arrays[2]), light._native is None,
                  all(array.flags.owndata and array.flags.writeable for array in arrays)]))
m.data[0] *= 2
wanted = m.data.copy()
wanted[0] /= 2
{}
assert np.array_equal(A.data, wanted) and np.array_equal(A.indices, m.indices)
assert light.complete() and np.allclose(A @ x, sps.csr_array((wanted, m.indices, m.indptr), shape=m.shape) @ x)
A.data.resize(wanted.size + 400_000, refcheck=False)
assert np.array_equal(A.data[: wanted.size], wanted)
"""
    name = "autosparse_unconnected" if runtime_api.extension else "default_allocator"
    assert printed(lines.format("")) == [name, True, True]
    assert printed(lines.format("light.runtime()\ndel arrays\nB = asp.csr(m); del B")) == [name, True, True]


def test_products_with_a_vector_gain_by_the_runtime_from_fewer_multiplications_on():
    lines = "A = light.MIN_TERMS * 2 // 3 + 1\nprint([light.gains(A, (9,), transposed=flag) for flag in (False, True)])"
    assert run(f"{CLOCK}{lines}") == "[True, False]"


def test_products_that_are_too_short_to_gain_are_not_asked():
    """Check the shortcut of `product_by_loop`: below it no number of columns gains."""
    lines = "short = [(light.MIN_TERMS // 2 - 1, ())] + [(light.MIN_TERMS // 8 - 1, (k,)) for k in (1, 2, 3, 8, 100)]\n"
    shown = "print(any(light.gains(n, (9, *k), transposed=flag) for n, k in short for flag in (False, True)))"
    assert run(CLOCK + lines + shown) == "False"
