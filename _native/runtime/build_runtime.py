"""Build script of the C extension `autosparse._native._runtime` (cffi API mode); setuptools calls `ffibuilder` at
install.

To add functions, put them into a `.c` file in one of the folders here, and their declarations (plain C, no
preprocessor) into a header named `*_api.h`. Both are found by name, and a header is included by its name alone.
`write_shipped.py` generates further sources, into `build/runtime/generated`.
Without a working `-fopenmp` the runtime is built without OpenMP.

`make test` compiles what has changed, into the source tree, and the extension module (../extension/build_extension.py).
By hand, also into another folder:
  python _native/runtime/build_runtime.py [--dev=FLAGS] [FOLDER]

With --dev, which `make dev` gives, sources that have changed are compiled with FLAGS in place of -O3. These objects lie
in a folder of their own: builds without --dev compile the sources again.

With sanitizers:  AUTOSPARSE_SANITIZE=address,undefined python _native/runtime/build_runtime.py (or thread; then run
Python with LD_PRELOAD="$(cc -print-file-name=libasan.so)" and ASAN_OPTIONS=detect_leaks=0; the test
tests/native/test_runtime_sanitized.py does all of it).

Functions for tests (hooks.h) are compiled in when this script is run by hand, or if AUTOSPARSE_HOOKS (which setup.py
sets for development installs) or AUTOSPARSE_SANITIZE is set.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import functools
import hashlib
import os  # build time: nothing of autosparse can be imported yet
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cffi import FFI

FOLDER = Path(__file__).resolve().parent
INCLUDED = [FOLDER, *sorted(path for path in FOLDER.iterdir() if path.is_dir() and any(path.glob("*.h")))]
MODULE = "autosparse._native._runtime"
BUILD = FOLDER.parent.parent / "build" / "runtime"
# Sources with the longest compilation, in descending order of time. Builds begin with them.
SLOWEST = (
    "spmm_isa2.c", "spmm_isa1.c", "dots_rows.c", "kernels_isa2.c", "spmm_isa0.c", "attention.c", "kernels_isa1.c",
    "csf_isa2.c", "csf_isa1.c", "dots_any.c", "kernels_isa0.c", "basis.c", "csf_isa0.c", "solve.c",
)  # fmt: skip
EXTENSION = runpy.run_path(str(FOLDER.parent / "extension" / "build_extension.py"))
HOOKED = __name__ == "__main__" or any(map(os.environ.get, ("AUTOSPARSE_HOOKS", "AUTOSPARSE_SANITIZE")))


OPTIMIZE = "-O3"


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


# Flags that are used if a program that needs them compiles and links.
OPTIONAL = {
    "-fopenmp": "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n",
    "-pthread": "#include <pthread.h>\nint main(void) { return pthread_self() == 0; }\n",
}


def _links(flag: str, program: str) -> bool:
    """Return whether `program` compiles and links with `flag`."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text(program, encoding="utf-8")
        command = [*_compiler(), flag, str(source), "-o", str(Path(folder) / "probe")]
        try:
            return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
        except (OSError, subprocess.SubprocessError):
            return False


@functools.cache
def _flags() -> tuple[list[str], list[str]]:
    """Return the flags for compiling and for linking."""
    sanitizers = os.environ.get("AUTOSPARSE_SANITIZE", "")
    optimize = "-O1" if sanitizers else OPTIMIZE  # -O3 with checks takes minutes to compile
    compile_flags = [optimize, "-std=gnu11", "-Wall", "-Wextra", "-fno-math-errno", "-fvisibility=hidden"]
    link_flags: list[str] = []
    for flag, program in OPTIONAL.items():
        if _links(flag, program):
            compile_flags.append(flag)
            link_flags.append(flag)
    if sanitizers:
        checked = f"-fsanitize={sanitizers}"
        # -g1 gives line numbers in reports; tracking variables would take 20 % of the time.
        compile_flags += [checked, "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1", "-DASP_SHARED_TILES"]
        link_flags += [checked]
    if HOOKED:
        compile_flags.append("-DASP_HOOKS")
    return compile_flags, link_flags


def _found(pattern: str) -> list[Path]:
    """Return the runtime's files that match `pattern`, sorted by name: declarations must not depend on the folders."""
    return sorted(FOLDER.rglob(pattern), key=lambda path: path.name)


@functools.cache
def generated() -> Path:
    """Write the generated sources, unless they are there, and return their folder: a temporary one where `build` cannot
    be written.
    """
    folder = BUILD / "generated"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        folder = Path(tempfile.mkdtemp(prefix="autosparse-generated-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    state = folder.with_name("generated.state")
    if writable and _is_written(folder, state):
        return folder
    command = [sys.executable, "-I", "-S", str(FOLDER / "write_shipped.py"), str(folder)]
    written = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    if writable:
        read = written.stdout.split("\n")
        state.write_text("\n".join([_state_of_generated(folder, read), *read]), encoding="utf-8")
    return folder


def _is_written(folder: Path, state: Path) -> bool:
    """Return whether the generated sources were written by the modules as they are now."""
    if not state.exists():
        return False
    digest, *read = state.read_text(encoding="utf-8").split("\n")
    return digest == _state_of_generated(folder, read)


def _state_of_generated(folder: Path, read: Sequence[str]) -> str:
    """Return a digest of the modules `read`, the headers that have a source of each level, and the generated files."""
    return _state_of([*map(Path, read), *_found("*_isa.h"), *sorted(folder.iterdir())])


def generated_sources() -> list[Path]:
    """Return the generated sources that are compiled, sorted by name."""
    return sorted(generated().glob("*.c"))


def include_folders() -> list[Path]:
    """Return the folders in which compilers find headers."""
    return [*INCLUDED, generated()]


def _digest(flags: list[str]) -> str:
    """Return 16 hex digits over all sources of the runtime and the flags, which are part of plans
    (`_native.kernels.identity`).
    """
    digest = hashlib.blake2b(" ".join(flags).encode(), digest_size=8)
    for source in [*_found("*.c"), *_found("*.h"), *sorted(generated().iterdir())]:
        if source.name != "_runtime_glue.c":
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()


# Defined in the glue code, which is rewritten when a source changes, or in a file of its own where objects are kept.
IDENTITY = """
#ifndef __VERSION__
#define __VERSION__ "a compiler without a version"
#endif
const char *asp_identity(void) { return "DIGEST " __VERSION__; }
const char *asp_headers(void) { return "HEADERS"; }
const char *asp_dev_sources(void) { return "DEV_SOURCES"; }
"""


def _make_builder(identity: str) -> FFI:
    """Return the builder of the module, with `identity` at the end of its C source."""
    headers = [*_found("*_api.h"), *(_found("hooks.h") if HOOKED else [])]
    builder = FFI()
    for header in headers:
        builder.cdef(header.read_text(encoding="utf-8"))
    compile_flags, link_flags = _flags()
    root = Path.cwd().resolve()
    sources = [*_found("*.c"), *generated_sources()]
    included = [*headers, *_found("*_python.h")]  # only the extension's own module uses Python's API
    builder.set_source(
        MODULE,
        "#include <stdint.h>\n#include <stddef.h>\n"
        + "".join(f'#include "{header.name}"\n' for header in included)
        + identity,
        # setuptools requires paths relative to setup.py
        sources=[str(path.relative_to(root) if path.is_relative_to(root) else path) for path in sources],
        include_dirs=[str(folder) for folder in include_folders()],
        extra_compile_args=compile_flags,
        extra_link_args=link_flags,
    )
    return builder


def _identity(dev_flags: Sequence[str] = (), dev_sources: Sequence[str] = ()) -> str:
    digest = _digest([*_flags()[0], *dev_flags, *dev_sources] if dev_sources else _flags()[0])
    text = IDENTITY.replace("DIGEST", digest).replace("HEADERS", EXTENSION["headers_digest"]())
    return text.replace("DEV_SOURCES", " ".join(dev_sources))


def ffibuilder() -> FFI:
    """Return the builder of the module, for setuptools."""
    return _make_builder(_identity())


def _inputs(record: Path) -> list[Path]:
    """Return the files that the compiler read for an object: the prerequisites of the rule that `-MMD` wrote."""
    rule = record.read_text(encoding="utf-8").replace("\\\n", " ").partition(": ")[2]
    return [Path(name.replace("\\ ", " ")) for name in re.split(r"(?<!\\)\s+", rule.strip())]


@functools.cache
def _contents(path: Path, version: tuple[int, int]) -> bytes:
    """Return a digest of a file; `version` is its time and size. Most sources include the same system headers."""
    return hashlib.blake2b(path.read_bytes(), digest_size=16).digest()


def _state_of(paths: Sequence[Path]) -> str:
    """Return a digest of names and contents of files: fresh clones and other branches have other times."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        digest.update(str(path).encode())
        with contextlib.suppress(OSError):  # a file that is gone
            known = path.stat()
            digest.update(_contents(path, (known.st_mtime_ns, known.st_size)))
    return digest.hexdigest()


def _state(record: Path) -> str:
    """Return a digest of the inputs of an object."""
    return _state_of(_inputs(record))


def _is_current(target: Path) -> bool:
    """Return whether an object was made from the present contents of its inputs."""
    record, state = target.with_suffix(".d"), target.with_suffix(".state")
    return (
        target.exists() and record.exists() and state.exists() and state.read_text(encoding="utf-8") == _state(record)
    )


def _object(source: Path, folder: Path, flags: list[str]) -> Path:
    """Compile `source` into `folder`, unless its object was made from the same contents of the same files."""
    target = folder / f"{source.stem}.o"
    if _is_current(target):
        return target
    record, state = target.with_suffix(".d"), target.with_suffix(".state")
    staged = target.with_suffix(f".{os.getpid()}.o")
    started = time.time()
    subprocess.run([*_compiler(), *flags, "-MMD", "-c", str(source), "-o", str(staged)], check=True)
    sys.stdout.write(f"compiled {source.name} in {time.time() - started:.1f} s\n")
    sys.stdout.flush()
    state.unlink(missing_ok=True)
    staged.with_suffix(".d").replace(record)
    staged.replace(target)
    if all(path.stat().st_mtime < started for path in _inputs(record)):  # else it was edited meanwhile
        state.write_text(_state(record), encoding="utf-8")
    return target


def _suffix() -> str:
    """Return the suffix of the extension's file: the one of the stable ABI, which every interpreter but one has."""
    is_abi3 = sys.platform != "win32" and not sysconfig.get_config_var("Py_GIL_DISABLED")
    return ".abi3.so" if is_abi3 else str(sysconfig.get_config_var("EXT_SUFFIX"))


def _kept(flags: list[str]) -> Path:
    """Return the folder of the objects that are compiled with these flags."""
    key = hashlib.blake2b(repr([_compiler(), flags]).encode(), digest_size=6).hexdigest()
    folder = BUILD / key
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _objects(sources: list[Path], flags: list[str], dev_flags: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Compile sources with `flags`, or with `dev_flags` in place of -O3 where these are given and the object is not
    current. Return the objects, and the names of sources that were compiled with `dev_flags`.
    """
    folder = _kept(flags)
    quick = [one for flag in flags for one in (dev_flags if flag == OPTIMIZE else [flag])]
    quick_folder = _kept(quick) if dev_flags else folder
    place = {name: number for number, name in enumerate(SLOWEST)}
    sources.sort(key=lambda source: place.get(source.name, len(place)))

    def one(source: Path) -> Path:
        if dev_flags and not _is_current(folder / f"{source.stem}.o"):
            return _object(source, quick_folder, quick)
        return _object(source, folder, flags)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(one, sources))
    return objects, [
        source.name for source, made in zip(sources, objects, strict=True) if made.parent == quick_folder != folder
    ]


def build_into(destination: Path, dev_flags: Sequence[str] = ()) -> Path:
    """Compile the extension into a folder.

    Objects are kept in `build/runtime`, a folder for each compiler and set of flags. An object is compiled again when
    its source or a header that the source includes has changed, then with `dev_flags` in place of -O3 if there are any.
    """
    compile_flags, link_flags = _flags()
    places = [f"-I{place}" for place in (*include_folders(), sysconfig.get_path("include"))]
    wraps = [] if os.environ.get("AUTOSPARSE_SANITIZE") else ["-fwrapv"]  # as Python's own flags, which wheels have
    flags = [*compile_flags, *wraps, "-fPIC", "-DNDEBUG", "-Wno-psabi", *places]  # psabi: notes on GCC before 4.6
    glue, identity = _kept(flags) / "_runtime_glue.c", _kept([*flags, *dev_flags]) / "_identity.c"
    with contextlib.redirect_stdout(None):
        _make_builder("").emit_c_code(str(glue))  # leaves the file alone where it would be the same
    objects, dev_sources = _objects([*_found("*.c"), *generated_sources(), glue], flags, dev_flags)
    identity.write_text(_identity(dev_flags, dev_sources), encoding="utf-8")
    objects.append(_object(identity, identity.parent, flags))
    target = destination / f"_runtime{_suffix()}"
    staged = target.with_suffix(f".{os.getpid()}.new")
    shared = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    subprocess.run([*_compiler(), *shared, *map(str, objects), *link_flags, "-o", str(staged)], check=True)
    staged.replace(target)  # a process that has mapped the old file keeps it
    return target


def main() -> None:
    """Build the extension and the extension module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dev", default="", metavar="FLAGS", help="flags for what has changed, in place of -O3")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER.parent)
    args = parser.parse_args()
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(lambda: EXTENSION["unavailable"]() or EXTENSION["build_into"](args.folder))
        sys.stdout.write(f"{build_into(args.folder, shlex.split(args.dev))}\n")
        sys.stdout.write(f"{beside.result()}\n")


if __name__ == "__main__":
    main()
