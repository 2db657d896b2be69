"""Build the C runtime; everything else is declared in pyproject.toml.

There are three outcomes, best first. The cffi extension `_runtime` is built. If Python's headers are missing (no
python3-dev), the same C is built as a plain library behind a generated `_runtime.py` (cffi ABI mode, 0.4 us more per
call). If no C compiler works, nothing is built: SciPy computes every product, and `python -m autosparse doctor` reports
it.

The extension module `_extension` is built beside the cffi extension (`_native/extension`). Without it, Python code
reads arrays.
"""

from __future__ import annotations

import os
import runpy
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

HERE = Path(__file__).resolve().parent
RUNTIME = "_native/runtime/build_runtime.py"
EXTENSION = "_native/extension/build_extension.py"
TORCH_EXTENSION = "_native/torch_extension/build_extension.py"
LIBRARY = "_runtime_plain.so"
FAULT = "_runtime_fault.txt"  # reason why the runtime is missing, for the warning and `doctor`
OPEN_LIBRARY = f"""
import os.path as _path
lib = ffi.dlopen(_path.join(_path.dirname(__file__), "{LIBRARY}"))
"""
FAILURES = (BaseError, CCompilerError, OSError, SubprocessError)

if {"editable_wheel", "develop", "--inplace"} & set(sys.argv):
    # Editable installation: also build the functions that only tests call (_native/runtime/hooks.h).
    os.environ["AUTOSPARSE_HOOKS"] = "1"


class OptionalBuildExt(build_ext):
    """build_ext command that reports a failing compiler and lets the installation continue."""

    def build_extension(self, ext: Any) -> None:
        ext.optional = True  # setuptools then accepts that the file is missing
        if ext.name.endswith("._extension"):
            self.build_module(ext)
        else:
            self.build_runtime(ext)

    def build_module(self, ext: Any) -> None:
        """Build the extension module for this version of Python, or report why there is none."""
        folder = Path(self.get_ext_fullpath(ext.name)).parent
        for place in (folder, HERE / "_native") if self.editable_mode else (folder,):
            (place / f"_extension{sysconfig.get_config_var('EXT_SUFFIX')}").unlink(missing_ok=True)
        try:
            if self.editable_mode:
                runpy.run_path(str(HERE / EXTENSION))["build_into"](HERE / "_native")
            else:
                super().build_extension(ext)
        except FAILURES as error:
            sys.stderr.write(f"autosparse: no extension module, Python code reads arrays: {error}\n")

    def get_source_files(self) -> list[str]:
        """Return the sources that a source distribution contains: all but the generated ones."""
        return [name for name in super().get_source_files() if (HERE / name).is_relative_to(HERE / "_native")]

    def build_runtime(self, ext: Any) -> None:
        """Build the C runtime in the first of the ways above that works."""
        ext.depends = [*(ext.depends or []), *map(str, sorted((HERE / RUNTIME).parent.rglob("*.[ch]")))]
        if "-g" not in ext.extra_compile_args:  # Python's flags contain -g: six times the size
            ext.extra_compile_args = [*ext.extra_compile_args, "-g0"]
        folder = Path(self.get_ext_fullpath(ext.name)).parent
        for place in (folder, HERE / "_native") if self.editable_mode else (folder,):
            _forget_builds(place)
        _build_for_torch((HERE / "_native" if self.editable_mode else folder) / "torch_extension")
        _compile_in_parallel(self.compiler)
        try:
            if self.editable_mode:  # as `make dev`: what has not changed since is not compiled again
                runpy.run_path(str(HERE / RUNTIME))["build_into"](HERE / "_native")
            else:
                super().build_extension(ext)
            return
        except FAILURES as error:
            sys.stderr.write(f"autosparse: no C extension: {error}\n")
        try:
            self.build_plain_library(ext, HERE / "_native" if self.editable_mode else folder)
            sys.stderr.write("autosparse: built the C runtime without Python's headers\n")
        except FAILURES as error:
            sys.stderr.write(f"autosparse: no C runtime, SciPy will serve every product: {error}\n")
            place = HERE / "_native" if self.editable_mode else folder
            place.mkdir(parents=True, exist_ok=True)
            (place / FAULT).write_text(f"{error}\n", encoding="utf-8")

    def build_plain_library(self, ext: Any, folder: Path) -> None:
        """Build the runtime's sources as `folder`/LIBRARY and write `folder`/_runtime.py with `ffi` and `lib`."""
        from cffi import FFI

        identity = Path(self.build_temp) / "_identity.c"  # the module's source, which needs the headers, has it too
        identity.parent.mkdir(parents=True, exist_ok=True)
        identity.write_text(runpy.run_path(str(HERE / RUNTIME))["_identity"]((), ()), encoding="utf-8")
        objects = self.compiler.compile(
            [one for one in ext.sources if Path(one).name != "autosparse._native._runtime.c"] + [str(identity)],
            output_dir=self.build_temp,
            include_dirs=ext.include_dirs,
            extra_postargs=[*ext.extra_compile_args, "-fvisibility=default"],
        )
        folder.mkdir(parents=True, exist_ok=True)
        self.compiler.link_shared_object(objects, str(folder / LIBRARY), extra_postargs=ext.extra_link_args)
        builder = FFI()
        runtime = (HERE / RUNTIME).parent
        headers = sorted(runtime.rglob("*_api.h"), key=lambda path: path.name)
        for header in [*headers, *([runtime / "hooks.h"] if os.environ.get("AUTOSPARSE_HOOKS") else [])]:
            builder.cdef(header.read_text(encoding="utf-8"))
        builder.set_source(ext.name, None)
        builder.emit_python_code(str(folder / "_runtime.py"))
        with (folder / "_runtime.py").open("a", encoding="utf-8") as module:
            module.write(OPEN_LIBRARY)


def _compile_in_parallel(compiler: Any) -> None:
    """Make `compiler` compile one file per core at a time, the slowest files first; setuptools uses one core."""
    compile_all = compiler.compile

    def compile_each(sources: Sequence[str], **how: Any) -> list[str]:
        slowest = {name: place for place, name in enumerate(runpy.run_path(str(HERE / RUNTIME))["SLOWEST"])}
        ordered = sorted(sources, key=lambda source: slowest.get(Path(source).name, len(slowest)))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return [item for made in pool.map(lambda source: compile_all([source], **how), ordered) for item in made]

    compiler.compile = compile_each


def _build_for_torch(folder: Path) -> None:
    """Build the C++ module for each PyTorch that the build environment has or that `AUTOSPARSE_TORCH` names."""
    script = runpy.run_path(str(HERE / TORCH_EXTENSION))
    for torch in script["torch_folders"]():
        try:
            script["build_into"](folder, torch)
        except script["UnbuiltError"] as error:
            sys.stderr.write(f"autosparse: no C++ module for PyTorch: {error}\n")


def _forget_builds(folder: Path) -> None:
    """Remove earlier builds from `folder`: Python, or a wheel, would take one of them instead of the new one."""
    for old in [*folder.glob("_runtime*.so"), folder / "_runtime.py", folder / FAULT]:
        old.unlink(missing_ok=True)


def _extension_module() -> list[Extension]:
    """Return the extension module, or no module where it cannot be built."""
    if not (HERE / EXTENSION).exists():
        return []
    build = runpy.run_path(str(HERE / EXTENSION))
    if missing := build["unavailable"]():
        sys.stderr.write(f"autosparse: no extension module, Python code reads arrays: {missing}\n")
        return []
    return [
        Extension(
            build["MODULE"],
            sources=[str(path.relative_to(HERE)) for path in build["sources"]()],
            depends=[str(path.relative_to(HERE)) for path in build["depends"]()],
            include_dirs=build["include_dirs"](),
            extra_compile_args=[*build["compile_flags"](), "-g0"],
        )
    ]


# The runtime uses the stable ABI. Wheels are for one version of Python all the same, because of the extension module.
setup(
    cffi_modules=[f"{RUNTIME}:ffibuilder"] if (HERE / RUNTIME).exists() else [],
    ext_modules=_extension_module(),
    cmdclass={"build_ext": OptionalBuildExt},
)
