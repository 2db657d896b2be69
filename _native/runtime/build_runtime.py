"""Builder of the C extension `autosparse._native._runtime` (cffi API mode); setuptools calls `ffibuilder` at install.

To add functions: put them into a `.c` file of one of the folders here and their declarations (plain C, no preprocessor)
into a header named `*_api.h`; both are found by name, and a header is included by its name alone. Without a working
`-fopenmp` the runtime is built without OpenMP.

By hand, into the source tree (or another folder):  python _native/runtime/build_runtime.py [FOLDER]
With sanitizers:          AUTOSPARSE_SANITIZE=address,undefined python _native/runtime/build_runtime.py
(or thread; then run Python with LD_PRELOAD="$(cc -print-file-name=libasan.so)" and ASAN_OPTIONS=detect_leaks=0; the
test tests/native/test_runtime_sanitized.py does all of it).

What only tests call (hooks.h, docs/design/testing.md) is compiled in here, and where setup.py sees that sources are
worked on.
"""

from __future__ import annotations

import hashlib
import os  # build time: nothing of autosparse can be imported yet
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cffi import FFI

FOLDER = Path(__file__).resolve().parent
INCLUDED = [FOLDER, *sorted(path for path in FOLDER.iterdir() if path.is_dir() and any(path.glob("*.h")))]
MODULE = "autosparse._native._runtime"
HOOKED = __name__ == "__main__" or any(map(os.environ.get, ("AUTOSPARSE_HOOKS", "AUTOSPARSE_SANITIZE")))


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


# Flags used where a program that needs them compiles and links.
OPTIONAL = {
    "-fopenmp": "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n",
    "-pthread": "#include <pthread.h>\nint main(void) { return pthread_self() == 0; }\n",
}


def _links(flag: str, program: str) -> bool:
    """Whether `program` compiles and links with `flag`."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text(program)
        command = [*_compiler(), flag, str(source), "-o", str(Path(folder) / "probe")]
        try:
            return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
        except (OSError, subprocess.SubprocessError):
            return False


def _flags() -> tuple[list[str], list[str]]:
    """Flags for compiling and for linking."""
    sanitizers = os.environ.get("AUTOSPARSE_SANITIZE", "")
    optimize = "-O1" if sanitizers else "-O3"  # -O3 with checks compiles for minutes
    compile_flags = [optimize, "-std=gnu11", "-Wall", "-Wextra", "-fno-math-errno", "-fvisibility=hidden"]
    link_flags: list[str] = []
    for flag, program in OPTIONAL.items():
        if _links(flag, program):
            compile_flags.append(flag)
            link_flags.append(flag)
    if sanitizers:
        checked = f"-fsanitize={sanitizers}"
        # -g1: lines in reports; tracking variables takes a fifth of the time.
        compile_flags += [checked, "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1", "-DASP_CHECKED"]
        link_flags += [checked]
    if HOOKED:
        compile_flags.append("-DASP_HOOKS")
    return compile_flags, link_flags


def _found(pattern: str) -> list[Path]:
    """Files of the runtime, by name: the order of declarations must not follow the folders."""
    return sorted(FOLDER.rglob(pattern), key=lambda path: path.name)


def _digest(flags: list[str]) -> str:
    """16 hex digits over every source of the runtime and the flags: plans name it (`_native.kernels.identity`)."""
    digest = hashlib.blake2b(" ".join(flags).encode(), digest_size=8)
    for source in [*_found("*.c"), *_found("*.h")]:
        if source.name != "_runtime_glue.c":
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()


# Defined in the glue: it is written anew whenever a source was changed, and nothing else need be compiled for it.
IDENTITY = """
#ifndef __VERSION__
#define __VERSION__ "a compiler without a version"
#endif
const char *asp_identity(void) { return "DIGEST " __VERSION__; }
"""


def _make_builder() -> FFI:
    headers = [*_found("*_api.h"), *(_found("hooks.h") if HOOKED else [])]
    builder = FFI()
    for header in headers:
        builder.cdef(header.read_text(encoding="utf-8"))
    compile_flags, link_flags = _flags()
    root = Path.cwd().resolve()
    sources = _found("*.c")
    included = [*headers, *_found("*_python.h")]  # only the module itself knows of Python
    builder.set_source(
        MODULE,
        "#include <stdint.h>\n#include <stddef.h>\n"
        + "".join(f'#include "{header.name}"\n' for header in included)
        + IDENTITY.replace("DIGEST", _digest(compile_flags)),
        # setuptools wants paths relative to setup.py
        sources=[str(path.relative_to(root) if path.is_relative_to(root) else path) for path in sources],
        include_dirs=[str(folder) for folder in INCLUDED],
        extra_compile_args=compile_flags,
        extra_link_args=link_flags,
    )
    return builder


ffibuilder = _make_builder()


def _object(source: Path, folder: Path, flags: list[str]) -> Path:
    """Compile `source` unless its object is newer than every source and header of the runtime that it may include."""
    target = folder / f"{source.stem}.o"
    inputs = [source, Path(__file__), *FOLDER.rglob("*.h")]
    if target.exists() and target.stat().st_mtime > max(path.stat().st_mtime for path in inputs):
        return target
    staged = target.with_suffix(f".{os.getpid()}.o")
    started = time.time()
    subprocess.run([*_compiler(), *flags, "-c", str(source), "-o", str(staged)], check=True)
    os.utime(staged, (started, started))  # an edit during the compilation must not pass for compiled
    staged.replace(target)
    return target


def build_into(destination: Path) -> Path:
    """Compile the extension into a folder; objects are kept in `build/` and reused while nothing changed."""
    compile_flags, link_flags = _flags()
    sanitizers = os.environ.get("AUTOSPARSE_SANITIZE", "").replace(",", "-")
    folder = FOLDER.parent.parent / "build" / "-".join(filter(None, ("runtime", sanitizers)))
    folder.mkdir(parents=True, exist_ok=True)
    glue = folder / "_runtime_glue.c"
    ffibuilder.emit_c_code(str(glue))
    places = [f"-I{place}" for place in (*INCLUDED, sysconfig.get_path("include"))]
    flags = [*compile_flags, "-fPIC", "-DNDEBUG", *places]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(lambda source: _object(source, folder, flags), [*_found("*.c"), glue]))
    target = destination / f"_runtime{sysconfig.get_config_var('EXT_SUFFIX')}"
    staged = target.with_suffix(f".{os.getpid()}.new")
    shared = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    subprocess.run([*_compiler(), *shared, *map(str, objects), *link_flags, "-o", str(staged)], check=True)
    staged.replace(target)  # a process that has the old file mapped keeps it
    return target


if __name__ == "__main__":
    sys.stdout.write(f"{build_into(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER.parent)}\n")
