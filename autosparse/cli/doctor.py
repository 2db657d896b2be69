"""Command `doctor`: print versions, machine, runtime, compiler, cache and extras; exit status 1 on problems."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autosparse._version import __version__
from autosparse.cache import open_store
from autosparse.cli import show
from autosparse.config import SETTINGS, Options, blas_threads, child_environment, get_options
from autosparse.core.target import Target
from autosparse.errors import TUNING_FAILURES, BuildError
from autosparse.isa import ISAS
from autosparse.scalar import NARROW_INDEX, SINGLE

if TYPE_CHECKING:
    from autosparse._native.c.build import Compiler

TORCH_CPU: Final = "https://download.pytorch.org/whl/cpu"
"""Index of PyTorch builds without the 2.6 GB of CUDA libraries."""
EXTRAS: Final = {
    "torch": ("torch",),
    "gpu": ("triton",),
    "numba": ("numba",),
    "train": ("torch", "hnswlib", "scikit-learn"),
    "dask": ("dask",),
    "plot": ("matplotlib",),
}
"""Packages that each extra installs."""
BROKEN_INSTALLATION: Final = (*TUNING_FAILURES, AttributeError, NameError, SyntaxError, TypeError, ValueError)
"""Exceptions that importing a damaged or mismatched third-party package may raise."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Line of the report: name, value, and for a problem a hint that says how to mend it."""

    name: str
    value: str
    hint: str | None = None


def configure(parser: argparse.ArgumentParser) -> None:
    """Add no arguments: `doctor` takes none."""


def run(arguments: argparse.Namespace) -> int:
    """Print every finding, with a hint for problems."""
    findings = [finding for check in CHECKS for finding in check()]
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        print(f"{'!' if finding.hint else ' '} {finding.name:<{width}}  {finding.value}")
        if finding.hint:
            print(f"  {'':<{width}}  Hint: {finding.hint}")
    n_problems = sum(finding.hint is not None for finding in findings)
    print(f"\n{n_problems} problem(s) found" if n_problems else "\nno problems found")
    return 1 if n_problems else 0


def _versions() -> Iterator[Finding]:
    build = "free-threaded" if not getattr(sys, "_is_gil_enabled", lambda: True)() else ""
    yield Finding("autosparse", __version__)
    yield Finding("python", f"{platform.python_version()} {platform.python_implementation()} {build}".strip())
    for package in ("numpy", "scipy", "cffi", "platformdirs"):
        yield Finding(package, importlib.metadata.version(package))


def _machine() -> Iterator[Finding]:
    target = Target.host()
    caches = ", ".join(show.size(n) for n in (target.l1_bytes, target.l2_bytes, target.l3_bytes))
    yield Finding("system", platform.platform())
    yield Finding("processor", f"{target.cpu} ({target.machine})")
    held = target.held_to(get_options().isa).isa
    is_held = held != target.isa
    yield Finding("instruction set", f"{held} (AUTOSPARSE_ISA; the processor has {target.isa})" if is_held else held)
    yield Finding("cores available", str(target.n_cores))
    yield Finding("caches L1, L2, L3", caches)


def _rates() -> Iterator[Finding]:
    """Yield findings on the machine's rates that cost models read, and on their source."""
    from autosparse.tuner.features.setting import MachineRates
    from autosparse.tuning.rates.probed import RATES
    from autosparse.tuning.rates.record import rates_in_use

    options = get_options()
    target = Target.host().held_to(options.isa)
    found = rates_in_use(options, target)
    yield Finding("rates of cost models", found.source)
    rates = found.rates or MachineRates.typical(target)
    speeds = ", ".join(f"{name} {getattr(rates, name) / 1e9:.3g}" for name in RATES)
    yield Finding("rates, 10^9 per second", f"{speeds}, on {found.threads} threads")
    if found.rates is not None and found.rates.wake_s:
        start, wake = 1e6 * found.rates.start_s, 1e6 * found.rates.wake_s
        yield Finding("start of threads", f"{start:.0f} us, after a pause {wake:.0f} us")


def _extension_module() -> Finding:
    from autosparse._native import reinstalling, runtime_api

    if not runtime_api.extension_fault:
        return Finding("extension module", "built")
    missing = f"missing: Python code reads arrays, some us more per product ({runtime_api.extension_fault})"
    can_be_built = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
    return Finding("extension module", missing, hint=reinstalling.hint() if can_be_built else None)


def _runtime() -> Iterator[Finding]:
    # Imported here so that the other findings are printed if this import fails.
    from autosparse._native import reinstalling, runtime_api

    if runtime_api.available:
        slow = runtime_api.dev_sources()
        named = ", ".join(slow) if len(slow) < 8 else f"{len(slow)} sources"
        yield Finding("C runtime", f"built by make dev, without optimisation of {named}" if slow else "built")
        yield _extension_module()
        yield Finding("threads", str(get_options().threads or runtime_api.max_threads()))
        yield Finding("entries of x", "gathered" if runtime_api.gathers() else "loaded one by one (faster here)")
        return
    yield Finding("C runtime", f"missing: SciPy computes every product ({runtime_api.fault})", hint=reinstalling.hint())


def _blas() -> Iterator[Finding]:
    """Yield a finding on NumPy's BLAS: OpenBLAS threads stay busy after each call, which slows down products."""
    import numpy as np

    config: dict[str, Any] = np.show_config(mode="dicts")  # type: ignore[assignment]
    name = str(config.get("Build Dependencies", {}).get("blas", {}).get("name", "unknown"))
    wanted = blas_threads()
    if "openblas" not in name.lower() or wanted == "1" or Target.host().n_cores == 1:
        yield Finding("BLAS of NumPy", f"{name}, {wanted or 'all'} threads")
        return
    advice = "OPENBLAS_NUM_THREADS=1 is faster for vectors between products (docs/howto/threads.md)"
    yield Finding("BLAS of NumPy", f"{name}, {wanted or 'all'} threads, busy for 50 ms after each call: {advice}")


def _compiler() -> Iterator[Finding]:
    from autosparse._native.c.build import Compiler
    from autosparse._native.kernels.identity import backend_name  # imported here as in _runtime

    wanted = get_options().compiler
    if backend_name(wanted) == "numba":
        yield from _numba(wanted)
        return
    try:
        compiler = Compiler.find(wanted)
    except BuildError as err:
        reason = str(err).split("\n", 1)[0].rstrip(".")
        yield Finding(
            "compiler",
            f"{reason}, and no numba: the default kernels serve, none are generated",
            hint="apt-get install gcc libc6-dev, or pip install numba or ziglang, or set AUTOSPARSE_CC to a C compiler",
        )
        return
    found = shutil.which(compiler.command[0]) or compiler.command[0]
    shown = " ".join([found, *compiler.command[1:]])
    try:
        answer = subprocess.run(
            [*compiler.command, "--version"],
            capture_output=True, encoding="utf-8", errors="replace", timeout=20, check=True, env=child_environment(),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        yield Finding("compiler", f"{shown} does not run: {error}", hint="set AUTOSPARSE_CC to a C compiler that does")
        return
    shown = f"{shown}: {(answer.stdout.splitlines() or ['?'])[0]}"
    if (fault := _fault_of(compiler)) is not None:
        yield Finding("compiler", f"{shown}; {fault}", hint="set AUTOSPARSE_CC to gcc, clang or ziglang's compiler")
        return
    yield Finding("compiler", shown)
    yield Finding("backend", "C")


def _fault_of(compiler: Compiler) -> str | None:
    """Return why a kernel with vectors, which some compilers do not support, cannot be compiled; None if it can."""
    from autosparse._native import KernelSpec
    from autosparse._native.c.build import Compilations
    from autosparse._native.c.emit import emit
    from autosparse._native.kernels.shipped_specs import chosen

    isa = Target.host().isa
    schedule = next(chosen(SINGLE.lanes(ISAS[isa].vector_bytes)))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "trial.c"
        spec = KernelSpec(schedule.operation, schedule, SINGLE.name, NARROW_INDEX.name, isa)
        source.write_text(emit(spec), encoding="utf-8")
        try:
            Compilations().compile(compiler, isa, source, source.with_suffix(".so"))
        except BuildError as err:
            return str(err)
    return None


def _numba(wanted: str | None) -> Iterator[Finding]:
    """Yield findings on the numba backend, requested by option `compiler` (`wanted`) or used without a C compiler."""
    if importlib.util.find_spec("numba") is None:
        yield Finding("compiler", "numba, which is not installed", hint="pip install 'autosparse[numba]'")
        return
    why = "asked for" if wanted else "there is no C compiler"
    yield Finding("compiler", f"numba {importlib.metadata.version('numba')} ({why})")
    yield Finding("backend", "numba: kernels take longer to compile than in C, and some run slower")


def _cache() -> Iterator[Finding]:
    facts = open_store().stats()
    yield Finding("cache folder", str(facts.folder))
    refused = facts.reason is not None and facts.folder is not None
    yield Finding(
        "cache access",
        facts.access if facts.reason is None else f"{facts.access}: {facts.reason}",
        hint="set AUTOSPARSE_CACHE_DIR to a folder that only you can write" if refused else None,
    )
    contents = ", ".join(f"{n} {kind}" for kind, n in sorted(facts.n_entries.items())) or "empty"
    yield Finding("cache contents", f"{contents}; {show.size(facts.n_bytes)} of {show.size(facts.max_bytes)}")


def _settings() -> Iterator[Finding]:
    now, default = get_options(), Options()
    for name, value in now._asdict().items():
        if value != getattr(default, name):
            yield Finding(SETTINGS[name].env, str(value))


def _extras() -> Iterator[Finding]:
    for extra, packages in EXTRAS.items():
        versions = {name: _version(name) for name in packages}
        found = [f"{name} {version}" for name, version in versions.items() if version]
        missing = [name for name, version in versions.items() if not version]
        text = ", ".join([*found, *(f"no {name}" for name in missing)])
        cpu = f", after pip install torch --index-url {TORCH_CPU}" if "torch" in missing and extra != "gpu" else ""
        yield Finding(f"extra {extra}", text if not missing else f"{text} (pip install 'autosparse[{extra}]'{cpu})")


def _version(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _torch_module() -> Iterator[Finding]:
    """Yield a finding if PyTorch is installed: whether the C++ module for its version is built."""
    from autosparse._native.torch_extension import build_extension  # imported here as in _runtime

    version = _version("torch")
    if version is None:
        return
    version = version.partition("+")[0]
    is_built = (build_extension.FOLDER / build_extension.file_name(version)).exists()
    command = "python -m autosparse._native.torch_extension.build_extension"
    text = "built" if is_built else f"not built: small torch products cost more ({command})"
    yield Finding(f"C++ module for torch {version}", text)


def _gpu() -> Iterator[Finding]:
    """Yield a finding: products on a GPU are served, or the first requirement that is missing."""
    for name, what in {"torch": "PyTorch", "triton": "Triton"}.items():
        if importlib.util.find_spec(name) is None:
            yield Finding("GPU products", f"unavailable: {what} is not installed (extra gpu)")
            return
    try:
        import torch
    except (ImportError, OSError) as err:
        yield Finding("GPU products", f"unavailable: PyTorch cannot be imported: {err}")
        return
    try:
        importlib.import_module("triton")
    except BROKEN_INSTALLATION as err:
        yield Finding(
            "GPU products",
            f"PyTorch's own: Triton cannot be imported: {type(err).__name__}: {err}",
            hint="pip install --force-reinstall 'triton>=3.2'",
        )
        return
    if torch.version.cuda is None:
        yield Finding("GPU products", "unavailable: this PyTorch was built without CUDA")
    elif not torch.cuda.is_available():
        yield Finding("GPU products", "unavailable: PyTorch finds no NVIDIA GPU or no driver")
    else:
        yield Finding("GPU products", f"served on {torch.cuda.get_device_name()}")


CHECKS: Final[tuple[Callable[[], Iterator[Finding]], ...]] = (
    _versions,
    _machine,
    _rates,
    _runtime,
    _blas,
    _compiler,
    _cache,
    _settings,
    _extras,
    _torch_module,
    _gpu,
)
"""Checks in the order in which their findings are printed."""
