"""Implementations that compute schedules, as rows of a table, by which kernels are built, loaded or looked up.

A schedule says whether its loops are generated or precompiled in the runtime, and the setting `compiler` names the
generator. Both together select a row of IMPLEMENTATIONS. Composites have a row, which delegates each part to another
row, and so have GPU kernels, which have their own class of schedules. To add an implementation, add a row.
"""

from __future__ import annotations

import dataclasses
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, overload

from autosparse._native.c import build as c_build
from autosparse._native.c.build import Compilations
from autosparse._native.ir import lower
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.kernels.backend import BACKENDS, ArtefactStore, CBackend
from autosparse._native.kernels.identity import backend_name
from autosparse._native.kernels.kernel import CompiledKernel
from autosparse._native.kernels.precompiled import ready_kernel, reason_unsupported
from autosparse._native.kernels.shipped import shipped_kernel

from autosparse import forking
from autosparse.core.composite import Composite, Schedule
from autosparse.core.schedule import RUNTIME, SuperSchedule
from autosparse.errors import BuildError

if TYPE_CHECKING:
    from autosparse._native.kernels.composite import CompositeKernel, CompositeSpec
    from autosparse._native.triton.kernel import DeviceKernel
    from autosparse._native.triton.spec import DeviceSpec

    from autosparse.gpu.schedule import DeviceSchedule

    Spec = KernelSpec | CompositeSpec
    AnyKernel = CompiledKernel | CompositeKernel

COMPOSITE: Final = "parts"
TRITON: Final = "triton"


class Implementation(Protocol):
    """A way to compute schedules. `compiler` is the setting of that name, `store` keeps compiled artefacts."""

    @property
    def name(self) -> str:
        """Key of its row, shown by `explain`."""

    def supports(self, operation: str, schedule: Any) -> str | None:  # a row's own class of schedule
        """Return why it cannot compute `schedule`, or None if it can. The schedule must be legal."""

    def compile(
        self, spec: Any, *, store: ArtefactStore, compiler: str | None, compilations: Compilations
    ) -> AnyKernel | DeviceKernel:
        """Return the kernel of `spec`, whose `bind` returns an object with the method `run`.

        Raises BuildError, with a log.
        """

    def loaded(self, spec: Any, compiler: str | None) -> AnyKernel | DeviceKernel | None:
        """Return the kernel of `spec` if this process has loaded it already, else None."""

    def is_built(self, spec: Any, *, store: ArtefactStore, compiler: str | None) -> bool:
        """Return whether `compile` needs no compiler, as far as this process knows."""


class Precompiled:
    """Loops that were compiled at installation, so nothing is built."""

    name: Final = RUNTIME

    def supports(self, operation: str, schedule: SuperSchedule) -> str | None:
        """Return why the schedule cannot be computed, or None; see `Implementation`."""
        return reason_unsupported(operation, schedule)

    def compile(
        self, spec: KernelSpec, *, store: ArtefactStore, compiler: str | None, compilations: Compilations
    ) -> CompiledKernel:
        """Return the kernel; see `Implementation`."""
        kernel = ready_kernel(spec)
        if kernel is None:
            reason = reason_unsupported(spec.operation, spec.schedule)
            types = f"{spec.dtype} values and {spec.index_dtype} indices"
            raise BuildError(reason or f"the runtime has no kernel for this schedule with {types}", key=spec.key())
        return kernel

    def loaded(self, spec: KernelSpec, compiler: str | None) -> CompiledKernel | None:
        """Return the kernel, or None; see `Implementation`."""
        return ready_kernel(spec)

    def is_built(self, spec: KernelSpec, *, store: ArtefactStore, compiler: str | None) -> bool:
        """Return whether the kernel exists; see `Implementation`."""
        return ready_kernel(spec) is not None


_loaded: Final[dict[str, CompiledKernel]] = {}
_missing: Final[set[str]] = set()
"""Keys that `is_built` did not find. A lookup costs milliseconds, and a stale answer only affects an estimate."""
_present: Final[set[str]] = set()
"""Keys that `is_built` found; stale if another process clears the cache, which only affects an estimate."""
_mutex: Final = forking.lock()


class Generated:
    """Kernels that a backend emits and compiles and the cache keeps; a few are shipped with the package."""

    def __init__(self, name: str) -> None:
        self.name: Final = name

    def supports(self, operation: str, schedule: SuperSchedule) -> str | None:
        """Return why the schedule cannot be lowered, or None; see `Implementation`."""
        return lower.supports(operation, schedule)

    def compile(
        self, spec: KernelSpec, *, store: ArtefactStore, compiler: str | None, compilations: Compilations
    ) -> CompiledKernel:
        """Return the kernel: shipped, loaded in this process, from `store`, or compiled; see `Implementation`."""
        if (shipped := shipped_kernel(spec, compiler)) is not None:
            return shipped
        backend = BACKENDS[self.name]()
        key = backend.key(spec, compiler)
        kernel = _loaded.get(key)
        if kernel is None:
            backend.dump(spec)
            try:
                folder = store.artefact(key, backend.fill(spec, compiler, compilations))
                kernel = backend.load(spec, folder)
            except BuildError as err:
                err.key = err.key or spec.key()
                raise
            with _mutex:
                kernel = _loaded.setdefault(key, kernel)  # another thread may have loaded it for another schedule
        return kernel if kernel.spec == spec else _with_spec(kernel, spec)

    def loaded(self, spec: KernelSpec, compiler: str | None) -> CompiledKernel | None:
        """Return the kernel if it is loaded or shipped, else None; see `Implementation`."""
        if (shipped := shipped_kernel(spec, compiler)) is not None:
            return shipped
        kernel = _loaded.get(self._key(spec, compiler))
        return kernel if kernel is None or kernel.spec == spec else _with_spec(kernel, spec)

    def is_built(self, spec: KernelSpec, *, store: ArtefactStore, compiler: str | None) -> bool:
        """Return whether the kernel is shipped, loaded or in `store`; see `Implementation`.

        Another process may build it later.
        """
        if shipped_kernel(spec, compiler) is not None:
            return True
        key = self._key(spec, compiler)
        if key in _loaded or key in _present or key in _missing:
            return key in _loaded or key in _present

        if store.find_artefact(key) is None:  # not built, or the cache is unusable: a build would have to compile
            _missing.add(key)
            return False
        _present.add(key)
        return True

    def _key(self, spec: KernelSpec, compiler: str | None) -> str:
        """Return the artefact's key; the compiler is located once per process."""
        if self.name == "c" and compiler is None:
            return CBackend().key(spec, compiler, c_build.compiler_id())
        return BACKENDS[self.name]().key(spec, compiler)


class Composites:
    """Composites: each part's kernel is made by the implementation of its schedule, and all are called together."""

    name: Final = COMPOSITE

    def supports(self, operation: str, schedule: Composite) -> str | None:
        """Return why the composite cannot be computed, or None; see `Implementation`."""
        from autosparse._native.kernels.composite import composite_unsupported

        return composite_unsupported(operation, schedule)

    def compile(
        self, spec: CompositeSpec, *, store: ArtefactStore, compiler: str | None, compilations: Compilations
    ) -> CompositeKernel:
        """Return the kernels, with parts compiled one after the other; see `Implementation`."""
        from autosparse._native.kernels.composite import CompositeKernel

        kernels: list[Any] = [  # each row has its own class
            implementation_of(one.schedule, compiler).compile(
                one, store=store, compiler=compiler, compilations=compilations
            )
            for one in spec.parts
        ]
        return CompositeKernel(spec.schedule, tuple(kernels))

    def loaded(self, spec: CompositeSpec, compiler: str | None) -> CompositeKernel | None:
        """Return the kernels if all parts are loaded, else None; see `Implementation`."""
        from autosparse._native.kernels.composite import CompositeKernel

        kernels: list[Any] = [implementation_of(one.schedule, compiler).loaded(one, compiler) for one in spec.parts]
        return None if None in kernels else CompositeKernel(spec.schedule, tuple(kernels))

    def is_built(self, spec: CompositeSpec, *, store: ArtefactStore, compiler: str | None) -> bool:
        """Return whether all parts are built; see `Implementation`."""
        parts = ((implementation_of(one.schedule, compiler), one) for one in spec.parts)
        return all(made_by.is_built(one, store=store, compiler=compiler) for made_by, one in parts)


class Devices:
    """GPU kernels, by `_native.triton`, which is imported at the first use."""

    name: Final = TRITON

    def __getattr__(self, name: str) -> Any:  # Any: methods of `Implementation`
        from autosparse._native.triton.kernel import Triton

        return getattr(Triton(), name)


def _with_spec(kernel: CompiledKernel, spec: KernelSpec) -> CompiledKernel:
    """Return the same code under a schedule that differs only in run-time arguments."""
    return dataclasses.replace(kernel, spec=spec)


IMPLEMENTATIONS: Final[Mapping[str, Implementation]] = {
    RUNTIME: Precompiled(),
    **{name: Generated(name) for name in BACKENDS},
    COMPOSITE: Composites(),
    TRITON: cast("Implementation", Devices()),
}
"""Implementations by name: "runtime", one per backend that compiles, "parts", and "triton" for GPUs."""


def implementation_of(schedule: Schedule | DeviceSchedule | None, compiler: str | None) -> Implementation:
    """Return the implementation of `schedule` (None: the default kernel) under the setting `compiler`."""
    if schedule is None:
        return IMPLEMENTATIONS[RUNTIME]
    if isinstance(schedule, SuperSchedule):
        return IMPLEMENTATIONS[RUNTIME if schedule.is_precompiled else backend_name(compiler)]
    return IMPLEMENTATIONS[COMPOSITE if isinstance(schedule, Composite) else TRITON]


def supports(operation: str, schedule: Schedule | DeviceSchedule) -> str | None:
    """Return why there is no kernel of `schedule` for `operation`, or None if there is one."""
    if isinstance(schedule, SuperSchedule):
        return (reason_unsupported if schedule.is_precompiled else lower.supports)(operation, schedule)
    return implementation_of(schedule, None).supports(operation, schedule)


def compiler_id(compiler: str | None = None) -> str:
    """Return the identity of the compiler of kernels, or "none" without one."""
    return BACKENDS[backend_name(compiler)]().identity(compiler)


@overload
def build(
    spec: Spec, *, store: ArtefactStore, compiler: str | None = None, compilations: Compilations | None = None
) -> AnyKernel: ...
@overload
def build(
    spec: DeviceSpec, *, store: ArtefactStore, compiler: str | None = None, compilations: Compilations | None = None
) -> DeviceKernel: ...
def build(
    spec: Spec | DeviceSpec,
    *,
    store: ArtefactStore,
    compiler: str | None = None,
    compilations: Compilations | None = None,
) -> Any:  # the overloads tell the types apart
    """Return the kernel of `spec`: loaded in this process, from `store`, or compiled.

    Raises BuildError, with the compiler's log.
    """
    made_by = implementation_of(spec.schedule, compiler)
    return made_by.compile(spec, store=store, compiler=compiler, compilations=compilations or Compilations())


def loaded(spec: Spec, *, compiler: str | None = None) -> AnyKernel | None:
    """Return the kernel of `spec` if this process has loaded it already, else None."""
    found: Any = implementation_of(spec.schedule, compiler).loaded(spec, compiler)  # each row has its own class
    kernel: AnyKernel | None = found
    return kernel


def is_built(spec: Spec, *, store: ArtefactStore, compiler: str | None = None) -> bool:
    """Return whether `build` needs no compiler, as far as known; another process may have built the kernel since."""
    return implementation_of(spec.schedule, compiler).is_built(spec, store=store, compiler=compiler)


def build_many(
    specs: Sequence[Spec], *, store: ArtefactStore, compiler: str | None = None, n_jobs: int | None = None,
    limit_s: float = c_build.COMPILE_LIMIT_S, ends_at: float = math.inf,
) -> list[AnyKernel | BuildError]:  # fmt: skip
    """Return each spec's kernel or its error, compiling `n_jobs` at a time (default: one per core), `limit_s` at most
    each.

    All compilers are ended at `ends_at` (by time.monotonic()), which counts as no failure of their kernels. An
    interrupt ends every compiler before it is passed on.
    """
    compilations = Compilations(limit_s=limit_s, ends_at=ends_at)

    def one(spec: Spec) -> AnyKernel | BuildError:
        try:
            return build(spec, store=store, compiler=compiler, compilations=compilations)
        except BuildError as err:
            return err

    if len(specs) == 1:  # no thread, because a single kernel is mostly loaded already
        try:
            return [one(specs[0])]
        except BaseException:
            compilations.cancel()
            raise
    try:
        built = _in_threads(one, specs, n_jobs or os.cpu_count() or 1)
        # Specs whose thread died are built again here, so that the exception reaches the caller.
        return [built[at] if at in built else one(spec) for at, spec in enumerate(specs)]
    except BaseException:
        compilations.cancel()
        raise


def _in_threads(
    one: Callable[[Spec], AnyKernel | BuildError], specs: Sequence[Spec], n_jobs: int
) -> dict[int, AnyKernel | BuildError]:
    """Return `one(spec)` of each spec by its number, `n_jobs` at a time, as far as threads can be started.

    ThreadPoolExecutor is not used: it refuses work at interpreter exit, and importing its module while another thread
    forks can deadlock.
    """
    built: dict[int, AnyKernel | BuildError] = {}
    waiting = deque(enumerate(specs))

    def work() -> None:
        while waiting:
            try:
                at, spec = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            built[at] = one(spec)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(n_jobs, len(specs)))]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError:  # the interpreter is exiting, or the system has no more threads
        work()
    try:
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    except BaseException:
        waiting.clear()
        raise
    return built
