"""Tests of building kernels: quoted compiler errors, no processes left behind, edited C, and shared keys."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from autosparse._native import runtime_api
from autosparse._native.c import types as c_types
from autosparse._native.c.build import HEADERS, Compilations, Compiler, _words
from autosparse._native.c.emit import emit
from autosparse._native.kernels.implementations import build_many

from autosparse import _native, cache, config
from autosparse.errors import BuildError
from tests.native import cases, operands

SANITIZED = tuple(f"tests/native/test_{name}.py" for name in ("kernels", "slices", "sddmm", "mttkrp"))
"""Test files that are run again with kernels compiled for sanitizers."""


SHARES = ((0, 32), (1, 32), (2, 8))
"""Run-time arguments of kernels: threads and chunk sizes."""


def chosen() -> Compiler:
    """Return the compiler of the settings, which may be one for another machine than the first on the path."""
    return Compiler.find(config.get_options().compiler)


def build(spec: _native.KernelSpec, store: FolderStore) -> _native.CompiledKernel:
    """Build one kernel by the compiler of the settings."""
    return _native.build(spec, store=store, compiler=config.get_options().compiler)


class FolderStore:
    """Artefact store of the build step, in a folder of the test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.n_built = 0

    def artefact(self, key: str, build: Callable[[Path], None]) -> Path:
        folder = self.root / key
        if not folder.exists():
            staging = self.root / f"{key}.new"
            staging.mkdir()
            build(staging)
            staging.rename(folder)
            self.n_built += 1
        return folder


def script(folder: Path, text: str) -> str:
    """Write an executable that stands for a compiler; return its path."""
    path = folder / "cc-test"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def specs(n: int) -> list[_native.KernelSpec]:
    """Return specs of kernels that no other test builds."""
    return [cases.spec(cases.schedule("i1:U,k1:C", "i1 j1 k1 j0", 4, prefetch=100 + at)) for at in range(n)]


def test_a_kernel_is_built_once_and_found_again(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    one = cases.spec(cases.schedule("i1:U,k1:C", "i1 j1 k1 j0", 12, chunk=1, partition="dynamic"))
    other = cases.spec(cases.schedule("i1:U,k1:C", "i1 j1 k1 j0", 12))
    compiler = config.get_options().compiler
    assert not _native.is_built(one, store=cache.open_store(), compiler=compiler)
    first, second = build(one, store), build(other, store)
    assert store.n_built == 1
    assert first.address == second.address
    assert second.spec == other
    assert _native.is_built(one, store=store, compiler=compiler)


def test_a_kernel_of_another_process_is_found(tmp_path: Path) -> None:
    code = (
        "from tests.native import cases; from autosparse import _native, cache, config\n"
        "of = cases.spec(cases.schedule('i1:U,k1:C', 'i1 j1 k1 j0', 12, prefetch=77))\n"
        "compiler = config.get_options().compiler\n"
        "print(_native.is_built(of, store=cache.open_store(), compiler=compiler)); cases.kernel(of)\n"
    )
    root = Path(__file__).resolve().parent.parent.parent
    environment = {**os.environ, "AUTOSPARSE_CACHE_DIR": str(tmp_path)}
    said = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True, check=True
        )
        for _ in range(2)
    ]
    assert [run.stdout.strip() for run in said] == ["False", "True"]


def test_a_failing_compiler_is_quoted(tmp_path: Path) -> None:
    compiler = script(tmp_path, "echo 'kernel.c:1: error: the moon is in the wrong place' >&2; exit 1")
    with pytest.raises(BuildError, match="wrong place") as caught:
        _native.build(specs(1)[0], store=FolderStore(tmp_path), compiler=compiler)
    assert caught.value.key == specs(1)[0].key()
    assert "moon" in caught.value.log


def test_a_missing_compiler_names_the_hint(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="AUTOSPARSE_CC"):
        _native.build(specs(1)[0], store=FolderStore(tmp_path), compiler="no-such-compiler-here")
    assert _native.compiler_id("no-such-compiler-here") == "none"


def test_a_compiler_is_looked_for_where_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that changes of a compiler whose path is remembered are noticed.

    Changes are another program at the path, behind a link or elsewhere on PATH, and a removed program.
    """
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
    assert _native.compiler_id("mycc") == "none"
    (folders[1] / "real").write_text("#!/bin/sh\n")
    (folders[1] / "real").chmod(0o755)
    (folders[1] / "mycc").symlink_to("real")
    one = _native.compiler_id("mycc")
    assert one.startswith(str(folders[1] / "real"))
    assert _native.compiler_id("mycc") == one
    (folders[1] / "real").write_text("#!/bin/sh\n# longer\n")
    changed = _native.compiler_id("mycc")
    assert changed != one
    (folders[1] / "other").write_text("#!/bin/sh\n")
    (folders[1] / "other").chmod(0o755)
    (folders[1] / "mycc").unlink()
    assert _native.compiler_id("mycc") == "none"
    (folders[1] / "mycc").symlink_to("other")
    assert _native.compiler_id("mycc").startswith(str(folders[1] / "other"))
    monkeypatch.setenv("PATH", str(folders[0]))
    assert _native.compiler_id("mycc") == "none"


def test_a_compiler_that_makes_nonsense_is_a_build_error(tmp_path: Path) -> None:
    compiler = script(tmp_path, 'for last; do :; done; echo "not an object" > "$last"')
    with pytest.raises(BuildError, match="cannot be loaded"):
        _native.build(specs(1)[0], store=FolderStore(tmp_path), compiler=compiler)


def test_another_compiler_makes_another_artefact(tmp_path: Path) -> None:
    gcc = shutil.which(chosen().command[0])
    assert gcc is not None
    compiler = script(tmp_path, f'exec {gcc} "$@"')
    store = FolderStore(tmp_path)
    of = specs(3)[2]
    build(of, store)
    _native.build(of, store=store, compiler=compiler)
    assert store.n_built == 2


def test_several_are_built_at_once_and_errors_stay_apart(tmp_path: Path) -> None:
    good = specs(6)[3:]
    results = build_many(good, store=FolderStore(tmp_path), compiler=config.get_options().compiler, n_jobs=2)
    assert all(isinstance(result, _native.CompiledKernel) for result in results)
    broken = build_many(good[:2], store=FolderStore(tmp_path / "x"), compiler="no-such-compiler-here")
    assert all(isinstance(result, BuildError) for result in broken)


def test_a_kernel_that_does_not_compile_is_compiled_once_for_all_schedules_of_a_batch(tmp_path: Path) -> None:
    """Check schedules that differ only in run-time arguments, and therefore share one source."""
    compiler = script(tmp_path, f"echo call >> {tmp_path}/calls; echo 'error: no such luck' >&2; exit 1")
    loops = [cases.schedule("i1:U,k1:C", "i1 k1", prefetch=61, threads=n, chunk=chunk) for n, chunk in SHARES]
    batch = [cases.spec(one) for one in loops]
    assert len({one.key() for one in batch}) == 1
    assert len(set(loops)) == len(loops)
    with config.options(cache_dir=tmp_path / "cache"):
        found = build_many(batch, store=cache.open_store(), compiler=compiler, n_jobs=2)
    assert ["no such luck" in str(one) for one in found] == [True] * len(batch)
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("a.c: In function 'f':\na.c:1:2: error: unknown type\n1 error", "a.c:1:2: error: unknown type"),
        ("/usr/bin/ld: cannot find -lm\ncollect2: error: ld returned 1 exit status", "/usr/bin/ld: cannot find -lm"),
        ("ld.lld: error: no -lm\nclang: error: linker command failed", "ld.lld: error: no -lm"),
        ("collect2: error: ld returned 1 exit status", "collect2: error: ld returned 1 exit status"),
        ("no such luck\n", "no such luck"),
        ("", "the compiler printed no message"),
    ],
)  # fmt: skip
def test_an_error_of_the_linker_is_told_in_its_own_words(log: str, line: str, tmp_path: Path) -> None:
    compiler = script(tmp_path, "\n".join(f"echo {part!r} >&2" for part in log.splitlines()) + "\nexit 1")
    with pytest.raises(BuildError, match=re.escape(line)):
        Compilations().compile(Compiler.find(compiler), "baseline", tmp_path / "a.c", tmp_path / "a.so")


def test_a_path_with_a_space_that_is_not_quoted_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "my compilers"
    folder.mkdir()
    path = script(folder, "exit 0")
    with pytest.raises(
        BuildError, match=r"(?s)'.*my compilers/cc-test'.*'.*my' is not there; quote a path with spaces"
    ):
        Compiler.find(path)
    assert Compiler.find(f"'{path}'").command == (path,)
    with pytest.raises(BuildError, match="a quote in AUTOSPARSE_CC is not closed"):
        Compiler.find(f"'{path}")


@pytest.mark.parametrize("name", ["cc", "gcc-12", "/usr/bin/g++", "a b", "'a b' -m32", "x\\ y", "#", "$CC", "", "é"])
def test_commands_have_the_words_that_a_shell_splits_them_into(name: str) -> None:
    assert _words(name) == tuple(shlex.split(name))


def test_a_compiler_ends_with_the_budget_and_its_kernel_is_not_called_bad(tmp_path: Path) -> None:
    compiler = script(tmp_path, "exec sleep 60")
    ended = Compilations(ends_at=time.monotonic())
    with pytest.raises(BuildError, match="the budget of tuning ended while") as caught:
        ended.compile(Compiler.find(compiler), "baseline", tmp_path / "a.c", tmp_path / "a.so")
    assert caught.value.is_cancelled
    with pytest.raises(BuildError, match=r"took more than 0\.01 s") as caught:
        Compilations(limit_s=0.01).compile(Compiler.find(compiler), "baseline", tmp_path / "a.c", tmp_path / "a.so")
    assert not caught.value.is_cancelled


def test_the_compiler_of_ziglang_runs_as_a_module_and_ends_with_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {
        "ziglang/__main__.py": f"import os, sys\nos.execvp({chosen().command[0]!r}, ['cc', *sys.argv[2:]])\n",
        "ziglang-0.15.1.dist-info/METADATA": "Name: ziglang\nVersion: 0.15.1\n",
        "a.c": "int f(void) { return 3; }\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with monkeypatch.context() as without_compilers:
        without_compilers.setenv("PATH", str(tmp_path))
        without_compilers.setitem(sysconfig.get_config_vars(), "CC", "no-such-compiler")
        compiler = Compiler.find()
    assert compiler == Compiler((sys.executable, "-m", "ziglang", "cc"), "ziglang 0.15.1")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    Compilations().compile(compiler, "baseline", tmp_path / "a.c", tmp_path / "a.so")
    assert ctypes.CDLL(str(tmp_path / "a.so")).f() == 3
    with pytest.raises(BuildError, match="the budget of tuning ended while") as caught:
        Compilations(ends_at=time.monotonic()).compile(compiler, "baseline", tmp_path / "a.c", tmp_path / "b.so")
    assert caught.value.is_cancelled


def test_cancelling_ends_the_compiler_and_its_children(tmp_path: Path) -> None:
    """Check that the compiler's child process ends too: it would outlive a plain kill of its parent."""
    pid_file = tmp_path / "pid"
    compiler = script(tmp_path, f"sleep 60 & echo $! > {pid_file}; wait")
    compilations = Compilations()
    failures: list[BuildError] = []

    def work() -> None:
        try:
            compilations.compile(Compiler.find(compiler), "baseline", tmp_path / "a.c", tmp_path / "a.so")
        except BuildError as err:
            failures.append(err)

    thread = threading.Thread(target=work)
    thread.start()
    while not (pid_file.exists() and pid_file.read_text().strip()):
        time.sleep(0.005)
    compilations.cancel()
    thread.join()
    assert "cancelled" in str(failures[0])
    pid = int(pid_file.read_text())
    while _runs(pid):
        time.sleep(0.005)
    with pytest.raises(BuildError, match="cancelled"):
        compilations.compile(Compiler.find(compiler), "baseline", tmp_path / "a.c", tmp_path / "a.so")


def _runs(pid: int) -> bool:
    """Return whether the process is alive and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_dumped_c_can_be_edited_and_is_taken(tmp_path: Path) -> None:
    made = cases.schedule("i1:U,k1:C", "i1 k1", prefetch=55)
    of = cases.spec(made)
    taken = cases.sample(8, 8, [2] * 8, seed=1)
    packed = _native.pack(taken.pattern, taken.data, made.format, transposed=False)
    B, C = np.ones((8, 1), np.float32), np.empty((8, 1), np.float32)

    def product() -> np.ndarray:
        build(of, FolderStore(tmp_path)).bind(packed).run(B.ctypes.data, 1, C.ctypes.data, 1, 1, 1)
        return C.copy()

    dumps = tmp_path / "dumps"
    with config.options(dump_dir=dumps):
        before = product()
        source = dumps / f"{of.key()}.c"
        assert "accumulate C[i]" in (dumps / f"{of.key()}.ir").read_text()
        assert source.read_text() == emit(of)
        source.write_text(source.read_text().replace("vals[p_k1] *", "3 * vals[p_k1] *"))
        after = product()
        assert "3 * vals" in source.read_text()  # the file is not overwritten
    np.testing.assert_array_equal(after, 3 * before)
    np.testing.assert_array_equal(product(), before)


def test_emitted_c_has_no_warnings(tmp_path: Path) -> None:
    """Compile with -Wall -Wextra, except for unused functions and parameters and the note on the vector ABI."""
    flags = ["-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-Wno-unused-function", "-Wno-unused-parameter"]
    specs = [*map(cases.spec, cases.FAMILY), *map(operands.spec, [*operands.SDDMM.values(), *operands.MTTKRP.values()])]
    for at, of in enumerate(specs):
        source = tmp_path / f"{at}.c"
        source.write_text(emit(of))
        compiler = chosen()
        arguments = [word for word in compiler.arguments(of.isa, source, tmp_path / "x.so") if word != "-w"]
        done = subprocess.run([*arguments, *flags, "-fsyntax-only"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_intrinsics_that_kernels_name_are_those_of_our_header() -> None:
    """Check that our header declares every intrinsic that the emitters name.

    A compiler that does not use our declarations, or a name that is missing there, falls back to the compiler's own
    header.
    """
    header = (HEADERS / "immintrin.h").read_text()
    emitters = "".join(path.read_text() for path in HEADERS.parent.glob("*.py"))
    named, there = (set(re.findall(r"\b_mm\d*_\w+\b", text)) for text in (emitters, header))
    whole = {name for name in named if not name.endswith("_p")}  # names that end in _p get their dtype's letter
    whole |= {name + letter for name in named - whole - {"_mm512_mask_storeu_p"} for letter in "sd"}  # in clang only
    assert whole <= there
    assert "#include_next <immintrin.h>" in header


def test_kernels_and_runtime_agree_on_the_operands_layout(tmp_path: Path) -> None:
    """Compare the two declarations of the struct, in the emitted C and in runtime/kernels/kernel_api.h."""
    names = ["size", "pos", "crd", "vals", "n_positions", "sorted", "parallel", "origin", "repeats", "take", "give"]
    names += ["done", "observer", "window"]
    table = ", ".join([*(f"offsetof(asp_operand, {name})" for name in names), "sizeof(asp_operand)"])
    source = tmp_path / "layout.c"
    source.write_text(f"{c_types.INCLUDES}{c_types.OPERAND_STRUCT}const int64_t layout[] = {{{table}}};\n")
    Compilations().compile(chosen(), "baseline", source, tmp_path / "layout.so")
    library = ctypes.CDLL(str(tmp_path / "layout.so"))
    theirs = list((ctypes.c_int64 * (len(names) + 1)).in_dll(library, "layout"))
    ffi = runtime_api.ffi
    assert theirs == [*(ffi.offsetof("asp_operand", name) for name in names), ffi.sizeof("asp_operand")]


@pytest.mark.full
def test_kernels_under_sanitizers(tmp_path: Path) -> None:
    """Run the kernel tests again with checks of addresses and undefined behaviour that end the process."""
    gcc = chosen().command[0]
    asan = subprocess.run(
        [gcc, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(asan).exists():
        pytest.skip("no libasan")
    root = Path(__file__).resolve().parent.parent.parent
    environment = {
        **os.environ,
        "AUTOSPARSE_CC": f"{gcc} -g -fsanitize=address,undefined -fno-sanitize-recover=all",
        "AUTOSPARSE_CACHE_DIR": str(tmp_path),
        "LD_PRELOAD": asan,
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *SANITIZED]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_kernels_that_share_their_code_keep_their_own_schedules(tmp_path: Path) -> None:
    specs = [
        cases.spec(cases.schedule(f"i1:U,k1:C | rows={rows}", "i1 k1", unroll=16, partition="dynamic", chunk=chunk))
        for rows, chunk in (("first", 5), ("rcm", 5), ("first", 7))
    ]
    assert len({spec.key() for spec in specs}) == 1
    with config.options(cache_dir=str(tmp_path)):
        kernels = _native.build_many(specs, store=cache.open_store(), compiler=config.get_options().compiler, n_jobs=3)
    assert [kernel.spec for kernel in kernels] == specs
