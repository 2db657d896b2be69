"""Compiler driver: C source to a shared object, one subprocess per file, several at a time, none left behind."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from autosparse import config, forking
from autosparse.core.values import dataclass, field
from autosparse.errors import BuildError
from autosparse.isa import ISAS

COMPILE_LIMIT_S: Final = 60.0
FLAGS: Final = ("-O2", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-ffp-contract=fast", "-w")
ISA_FLAGS: Final = {name: row.flags for name, row in ISAS.items()}
"""Compiler flags of each instruction set (gcc and clang)."""
HEADERS: Final = Path(__file__).parent / "include"
"""Headers that precede the compiler's own: intrinsics of x86-64 that kernels use, and no others."""
COMPILERS: Final = ("cc", "gcc", "clang")
PLAIN_NAME: Final = re.compile(r"[\w./+-]+", re.ASCII)
"""Commands of one word, without quotes, spaces and other characters that a shell interprets."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """Command and identity of a C compiler."""

    command: tuple[str, ...]
    identity: str  # changes when the program does

    @classmethod
    def find(cls, wanted: str | None = None) -> Compiler:
        """Return the compiler `wanted`, or the first of cc, gcc, clang, Python's and ziglang's. Raises BuildError."""
        built_with = sysconfig.get_config_var("CC")
        names = [wanted] if wanted else list(dict.fromkeys([*COMPILERS, *([built_with] if built_with else [])]))
        for name in names:
            command = _words(name)
            program = _program(command[0]) if command else None
            if program is not None:
                return cls(command, _identity(*program, command))
        zig = None if wanted else _ziglang()
        if zig is not None:
            return zig
        raise BuildError(
            f"no C compiler was found (looked for {', '.join(map(repr, names))}){_of_words(wanted)}.\n"
            "  Hint: install gcc or clang (pip install ziglang or numba serves too), or set AUTOSPARSE_CC. "
            "Until then the default kernels are used."
        )

    def arguments(self, isa: str, source: Path, target: Path) -> list[str]:
        """Return the command that compiles `source`."""
        return [*self.command, *FLAGS, *ISA_FLAGS[isa], "-isystem", str(HEADERS), str(source), "-o", str(target)]


def _ziglang() -> Compiler | None:
    """Return the compiler of the package `ziglang`, run through Python, because its program is not on PATH."""
    if importlib.util.find_spec("ziglang") is None:
        return None
    version = importlib.metadata.version("ziglang")
    return Compiler((sys.executable, "-m", "ziglang", "cc"), f"ziglang {version}")


@functools.lru_cache(maxsize=16)
def _words(name: str) -> tuple[str, ...]:
    """Return a command's words, split as by a shell, or () if a quote is not closed."""
    if PLAIN_NAME.fullmatch(name):
        return (name,)
    import shlex  # 0.5 ms

    try:
        return tuple(shlex.split(name))
    except ValueError:
        return ()


def _of_words(wanted: str | None) -> str:
    """Return a hint on how a compiler setting that holds a space was read; "" where it holds none."""
    words = _words(wanted) if wanted else ()
    if len(words) > 1:
        return f": AUTOSPARSE_CC is a command, and its program {words[0]!r} is not there; quote a path with spaces"
    return "" if words or not wanted else ": a quote in AUTOSPARSE_CC is not closed"


def _program(name: str) -> tuple[Path, os.stat_result] | None:
    """Return the path of the program `name` on PATH, and its `os.stat`; None if there is none.

    It is called several times per tuning, so the search is cached.
    """
    search = os.pathsep.join(os.get_exec_path())
    for _ in range(2):
        try:
            path = _located(name, search)
            return path, path.stat()
        except FileNotFoundError:  # the program does not exist, or the cached one is gone
            _located.cache_clear()
    return None


@functools.lru_cache(maxsize=16)
def _located(name: str, search: str) -> Path:
    """Return the path of `name` on the path `search`. Raises FileNotFoundError, which is not cached."""
    found = shutil.which(name, path=search)
    if found is None:
        raise FileNotFoundError(name)
    return Path(found)


@functools.lru_cache(maxsize=16)
def _resolved(path: Path, device: int, inode: int) -> Path:
    """Return the file behind links, cached by device and inode, so that changed links are noticed."""
    return path.resolve()


def _identity(path: Path, stat: os.stat_result, command: Sequence[str]) -> str:
    """Return the resolved program file, its size and date, which is cheaper than running it for its version."""
    real = _resolved(path, stat.st_dev, stat.st_ino)
    return f"{' '.join([str(real), *command[1:]])}:{stat.st_size}:{stat.st_mtime_ns}"


def compiler_id(wanted: str | None = None) -> str:
    """Return the identity of the compiler that `Compiler.find` finds, or "none"."""
    try:
        return Compiler.find(wanted).identity
    except BuildError:
        return "none"


@dataclass(eq=False)
class Compilations:
    """Running compilers, which an interrupt ends. Used by one build, or by several in threads."""

    limit_s: float = COMPILE_LIMIT_S  # per compilation; never more than COMPILE_LIMIT_S
    ends_at: float = math.inf  # by time.monotonic(): all are ended then, which counts as no failure of their kernels
    # by the keys of kernels that are not tried again in this build
    failed: dict[str, BuildError] = field(default_factory=dict)
    _running: set[subprocess.Popen[str]] = field(default_factory=set)
    _mutex: threading.Lock = field(default_factory=forking.lock)
    _cancelled: bool = False

    def compile(self, compiler: Compiler, isa: str, source: Path, target: Path) -> None:
        """Run the compiler on `source`.

        Raises BuildError with its output if it fails, is too slow or was cancelled.
        """
        process = self._start(compiler.arguments(isa, source, target))
        limit_s, left_s = min(self.limit_s, COMPILE_LIMIT_S), max(0.0, self.ends_at - time.monotonic())
        try:
            _, log = process.communicate(timeout=min(limit_s, left_s))
        except subprocess.TimeoutExpired:
            if left_s < limit_s:
                message = f"the budget of tuning ended while {compiler.command[0]} compiled a kernel"
                raise BuildError(message, is_cancelled=True) from None
            raise BuildError(f"the compiler took more than {limit_s:.3g} s on {source.name}") from None
        finally:
            self._end(process)
        if process.returncode:
            what = "was cancelled" if self._cancelled else f"failed: {_first_error(log)}"
            message = f"compiling a kernel with {compiler.command[0]} {what}"
            raise BuildError(message, log=log, is_cancelled=self._cancelled)

    def cancel(self) -> None:
        """End every running compiler with its children, and refuse new ones."""
        with self._mutex:
            self._cancelled = True
            running = tuple(self._running)
        for process in running:
            _kill(process)

    def _start(self, arguments: list[str]) -> subprocess.Popen[str]:
        with self._mutex:
            if self._cancelled:
                raise BuildError("compiling a kernel was cancelled", is_cancelled=True)
            try:
                # A process group of its own: gcc's children end with it, and Ctrl-C reaches it only through this
                # process.
                process = subprocess.Popen(
                    arguments,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    encoding="utf-8",
                    errors="replace",
                    env=config.child_environment(),
                    start_new_session=sys.platform != "win32",
                )
            except OSError as err:
                raise BuildError(f"the compiler {arguments[0]!r} could not be started: {err}") from err
            self._running.add(process)
            _all.add(self)
            return process

    def _end(self, process: subprocess.Popen[str]) -> None:
        """Ensure that the compiler has ended, whatever happened (including an interrupt)."""
        if process.poll() is None:
            _kill(process)
            process.wait()
        if process.stderr is not None:
            process.stderr.close()
        with self._mutex:
            self._running.discard(process)


def _first_error(log: str) -> str:
    """Return the line of a compiler's output that describes the error.

    A linker prints its errors on lines of its own; the compiler's line after them says only that the linker failed.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line]
    linking = [line for line in lines if re.match(r"\S*\b(ld|lld|gold|mold)(\.\w+)?(\.exe)?: ", line)]
    if errors and "ld returned" not in errors[0] and "linker command failed" not in errors[0]:
        return errors[0]
    return next(iter([*linking, *errors, *lines]), "the compiler printed no message")


_all: Final[weakref.WeakSet[Compilations]] = weakref.WeakSet()


def cancel_all() -> None:
    """End every compiler of this process, which is about to exit."""
    for compilations in list(_all):
        compilations.cancel()


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it has ended already
        pass
