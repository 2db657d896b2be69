"""Settings of autosparse: rows of `SETTINGS` and fields of `Options`. No other module reads the environment.

Precedence: `options(...)` in force here, `set_options(...)`, environment, default. Nothing is read at import.
"""

# No `from __future__ import annotations`: a NamedTuple compiles each string annotation while the module is loaded.

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from autosparse.configured import NO_SETTINGS, PREFIX
from autosparse.errors import OptionError, nearest
from autosparse.isa import ISAS, IsaName
from autosparse.notices import model_named
from autosparse.scalar import HALF, SINGLE, StoredName


class Effort(str, Enum):
    """Upper bound on the work that is spent on finding a better kernel; later members include the earlier ones.

    >>> asp.Effort("measure") is asp.Effort.MEASURE
    True
    """

    OFF = "off"  # default kernels only
    ESTIMATE = "estimate"  # choose by model, run nothing
    MEASURE = "measure"  # choose by model, then time the best few
    FULL = "full"  # search until the budget ends

    @property
    def rank(self) -> int:
        """Position of the effort, 0 (off) to 3 (full). A record of a higher rank satisfies a request of a lower one."""
        return tuple(Effort).index(self)

    def __str__(self) -> str:
        return self.value


EffortName = Literal["off", "estimate", "measure", "full"]


class Options(NamedTuple):  # a dataclass would cost 1 ms of the first product
    """Values of all settings, as `get_options` returns them.

    >>> with asp.options(threads=1):
    ...     asp.get_options().threads
    1
    """

    effort: Effort = Effort.MEASURE
    runs: int | None = None
    threads: int | None = None
    budget_s: float = 10.0
    background: bool = False
    deterministic: bool = False
    extra_memory: float = 1.5
    storage: str | None = None
    hybrid: bool | None = None
    vendor: bool = False
    overhead: float = 0.04
    share: bool = False
    cache: bool = True
    cache_dir: Path | None = None
    cache_max_bytes: int = 1 << 30
    output_pool_bytes: int | None = None
    dump_dir: Path | None = None
    models: Path | None = None
    model: str = "boosted"
    compiler: str | None = None
    isa: str | None = None
    wait: str = "auto"
    rates: Path | None = None


if TYPE_CHECKING:
    from contextlib import _GeneratorContextManager
    from typing import TypedDict

    from typing_extensions import Unpack  # part of typing from Python 3.11 on

    class OptionValues(TypedDict, total=False):
        """Keyword arguments of `options` and `set_options`, for type checkers. Each value is checked when it is set."""

        effort: Effort | EffortName
        runs: int | None
        threads: int | None
        budget_s: float
        background: bool
        deterministic: bool
        extra_memory: float
        storage: StoredName | None
        hybrid: bool | None
        vendor: bool
        overhead: float
        share: bool
        cache: bool
        cache_dir: str | os.PathLike[str] | None
        cache_max_bytes: int
        output_pool_bytes: int | None
        dump_dir: str | os.PathLike[str] | None
        models: str | os.PathLike[str] | None
        model: str
        compiler: str | None
        isa: IsaName | None
        wait: Literal["auto", "active", "passive"]
        rates: str | os.PathLike[str] | None


class Setting:
    """Row of `SETTINGS`: field of `Options`, environment variable, parser, domain and help text."""

    __slots__ = ("domain", "env", "help", "name", "parse")

    def __init__(self, name: str, env: str, parse: Callable[[Any], Any], domain: str, help: str) -> None:
        self.name, self.env, self.parse, self.domain, self.help = name, env, parse, domain, help


MAX_THREADS: Final = 4096
"""Upper bound of `threads`. Larger than any machine; kernels divide their work into a few parts per thread."""
MAX_BYTES: Final = 2**63 - 1
MAX_RUNS: Final = 2**63 - 1
MAX_RATIO: Final = 1e6
"""Upper bound of `extra_memory`, a ratio of bytes: finite, and beyond the memory of any machine."""


def _integer(low: int, high: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        number = int(value)
        if isinstance(value, bool) or not low <= number <= high or (isinstance(value, float) and value != number):
            raise ValueError
        return number

    return parse


def _real(low: float, high: float = float("inf")) -> Callable[[Any], float]:
    def parse(value: Any) -> float:
        number = float(value)
        if not low <= number <= high:  # nan neither
            raise ValueError
        return number

    return parse


def _flag(value: Any) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    return words[str(value).lower()]


def _one_of(*words: str) -> Callable[[Any], str]:
    return lambda value: words[words.index(str(value))]  # raises ValueError for other words


def _path(value: Any) -> Path:
    text = os.fspath(value)
    if not text or "\0" in text:
        raise ValueError
    try:
        return Path(text).expanduser()
    except RuntimeError:  # ~name of an unknown user
        raise ValueError from None


SETTINGS: Final[Mapping[str, Setting]] = {
    row.name: row
    for row in (
        Setting("effort", "AUTOSPARSE_EFFORT", Effort, "off, estimate, measure or full", "Upper bound on tuning work."),
        Setting("runs", "AUTOSPARSE_RUNS", _integer(1, MAX_RUNS), "an integer from 1 to 2**63 - 1",
                "Expected number of runs of each product (default: estimated from the products so far)."),
        Setting("threads", "AUTOSPARSE_THREADS", _integer(1, MAX_THREADS), f"an integer from 1 to {MAX_THREADS}",
                "Maximum number of threads per product (default: all cores that the process may use)."),
        Setting("budget_s", "AUTOSPARSE_BUDGET_S", _real(0.0), "seconds >= 0", "Maximum seconds of one tuning."),
        Setting("background", "AUTOSPARSE_BACKGROUND", _flag, "true or false", "Tune in a background thread."),
        Setting("deterministic", "AUTOSPARSE_DETERMINISTIC", _flag, "true or false",
                "Use the default kernels with one order of summation: the same bits in every run."),
        Setting("extra_memory", "AUTOSPARSE_EXTRA_MEMORY", _real(0.0, MAX_RATIO), "a ratio in [0, 1e6]",
                "Maximum bytes of packed copies, as a multiple of the bytes of the CSR matrix."),
        Setting("storage", "AUTOSPARSE_STORAGE", _one_of(*HALF), " or ".join(HALF),
                f"Let tuned products A @ B in {SINGLE.name} read values of A rounded to 16 bits, with a relative error "
                f"of at most 2^-8 or 2^-11 (sums stay {SINGLE.name}; default: no rounding)."),
        Setting("hybrid", "AUTOSPARSE_HYBRID", _flag, "true or false",
                "Store a matrix in parts, each in its own format. True: every search considers such plans; False: none "
                "is used (default: a full search considers them where the model expects a gain)."),
        Setting("vendor", "AUTOSPARSE_VENDOR", _flag, "true or false",
                "Let vendors' libraries compete in tuning: SciPy's own loop, and MKL if installed."),
        Setting("overhead", "AUTOSPARSE_OVERHEAD", _real(0.0, 1.0), "a ratio in [0, 1]",
                "Maximum time of tuning that was not asked for, as a share of the time spent in products."),
        Setting("share", "AUTOSPARSE_SHARE", _flag, "true or false",
                "Share the caller's arrays in csr, csc and tensor where `copy` is not given, as up to version 0.2 "
                "(default: the matrix owns a copy)."),
        Setting("cache", "AUTOSPARSE_CACHE", _flag, "true or false",
                "Keep plans, kernels and the time spent on problems on disk."),
        Setting("cache_dir", "AUTOSPARSE_CACHE_DIR", _path, "a folder", "Folder of the cache (default: the user's)."),
        Setting("cache_max_bytes", "AUTOSPARSE_CACHE_MAX_BYTES", _integer(0, MAX_BYTES), "bytes from 0 to 2**63 - 1",
                "Maximum size of the cache; entries that were unused for longest are removed first."),
        Setting("output_pool_bytes", "AUTOSPARSE_OUTPUT_POOL_BYTES", _integer(0, MAX_BYTES),
                "bytes from 0 to 2**63 - 1", "Bytes of freed results kept for reuse (default: 512 MiB, 1/16 of RAM)."),
        Setting("dump_dir", "AUTOSPARSE_DUMP_DIR", _path, "a folder",
                "Folder to which IR and C of each kernel are written; edited C is read back."),
        Setting("models", "AUTOSPARSE_MODELS", _path, "a folder", "Folder of cost models (default: the shipped ones)."),
        Setting("model", "AUTOSPARSE_MODEL", model_named, "boosted, waco or statistics",
                "Cost model: boosted trees, WACO's network and graph (trees where none is shipped), or statistics."),
        Setting("compiler", "AUTOSPARSE_CC", str, "a C compiler command, or numba",
                "Compiler for generated kernels (default: cc, gcc, clang, ziglang's, then numba)."),
        Setting("isa", "AUTOSPARSE_ISA", _one_of(*ISAS), " or ".join((", ".join([*ISAS][:-1]), [*ISAS][-1])),
                "Highest instruction set to use (default: the highest that the processor has)."),
        Setting("wait", "AUTOSPARSE_WAIT", _one_of("auto", "active", "passive"), "auto, active or passive",
                "Wait of the pool's threads for the next product. active: awake for up to 1 ms; passive: asleep at "
                "once; auto: awake while products follow within 1 ms and no thread of the process waits for a core. "
                "The process has one pool: the latest caller's setting holds."),
        Setting("rates", "AUTOSPARSE_RATES", _path, "off, measure or the path of a record",
                "Rates of the machine for cost models (default: measured once). off: shipped; measure: measured anew."),
    )
}  # fmt: skip

for _row in SETTINGS.values():  # what help(Options) and editors show for a field
    getattr(Options, _row.name).__doc__ = f"{_row.help} Value: {_row.domain}."

_NONE_ALLOWED: Final = {name for name, default in Options._field_defaults.items() if default is None}

# Settings that decide, beside `effort="off"`, which plan may serve. The other settings control caching and the search.
DECISIVE: Final = ("threads", "deterministic", "isa", "storage", "hybrid", "compiler", "vendor")


class InForce:
    """Options together with the values of the decisive ones: one tuple object per combination of values."""

    def __init__(self, options: Options) -> None:
        values = (options.effort is Effort.OFF, *(getattr(options, name) for name in DECISIVE))
        self.options, self.decisive = options, _interned.setdefault(values, values)


_interned: dict[tuple[Any, ...], tuple[Any, ...]] = {}
_listeners: Final[list[Callable[[Options], None]]] = []
_overrides: dict[str, Any] = {}  # set_options(): for the whole process
_from_environment: InForce | None = None
_current: ContextVar[InForce | None] = ContextVar("autosparse_options", default=None)


def parse_setting(name: str, value: Any, *, source: str = "option") -> Any:
    """Return the checked value of setting `name`; OptionError names setting, domain and `source` of a bad value."""
    if name not in SETTINGS:
        raise OptionError.unknown(name, SETTINGS)
    if value is None and name in _NONE_ALLOWED:
        return None
    row = SETTINGS[name]
    try:
        return row.parse(value)
    except (ValueError, TypeError, KeyError, OverflowError):
        label = row.env if source == "environment variable" else name
        raise OptionError.bad_value(label, value, domain=row.domain, source=source) from None


def _base_options() -> InForce:
    """Return the options of defaults, environment and set_options(), parsed once until `reload_options`."""
    global _from_environment
    if _from_environment is None:
        given = {
            row.name: parse_setting(row.name, os.environ[row.env], source="environment variable")
            for row in SETTINGS.values()
            if os.environ.get(row.env)
        }
        _notice_unknown_variables()
        _from_environment = InForce(Options()._replace(**(given | _overrides)))
    return _from_environment


_noticed: set[str] = set()


def _notice_unknown_variables() -> None:
    """Log one warning for each variable that has the prefix of settings but no setting's name (a probable typo)."""
    known = {row.env for row in SETTINGS.values()}
    for name in os.environ:
        if not name.startswith(PREFIX) or name in known or name.removeprefix(PREFIX) in NO_SETTINGS | _noticed:
            continue
        import logging  # only where there is a mistake to explain

        _noticed.add(name.removeprefix(PREFIX))
        near = nearest(name, known)
        hint = f"; {near}" if near else "; help(autosparse.Options) lists them"
        logging.getLogger("autosparse").warning("the environment variable %s is no setting%s", name, hint)


def on_change(listener: Callable[[Options], None]) -> Callable[[Options], None]:
    """Register `listener`, which is called with the options in force whenever they change, and return it."""
    _listeners.append(listener)
    return listener


def _announce() -> None:
    _ = [listener(get_options()) for listener in _listeners]


def get_options() -> Options:
    """Return the options in force here: innermost `options(...)`, else `set_options`, else environment, else defaults.

    >>> with asp.options(effort="off"):
    ...     asp.get_options().effort.value
    'off'
    """
    return (_current.get() or _base_options()).options


def decisive_options() -> tuple[Any, ...]:
    """Return the decisive values of the options in force here (see `DECISIVE`); equal values are the same object."""
    return (_current.get() or _base_options()).decisive


def set_options(**given: "Unpack[OptionValues]") -> None:
    """Change options for all threads of the process; blocks of `options` take precedence.

    ``help(autosparse.Options)`` describes each option.

    >>> asp.set_options(budget_s=5.0)
    >>> asp.get_options().budget_s
    5.0
    """
    global _from_environment
    parsed = {name: parse_setting(name, value) for name, value in given.items()}
    _overrides.update(parsed)
    _from_environment = None
    _announce()


def reload_options() -> None:
    """Discard values of `set_options` and read the environment again at the next call, for tests."""
    global _from_environment
    _overrides.clear()
    _from_environment = None


def options(**given: "Unpack[OptionValues]") -> "_GeneratorContextManager[Options]":
    """Return a context manager that sets options for the calls inside its ``with`` block, in this thread or task.

    Blocks nest, and the inner block's values apply. ``help(autosparse.Options)`` describes each option.

    >>> A, x = asp.csr(sps.eye_array(3, format="csr")), np.ones(3)
    >>> with asp.options(effort="off", threads=1):
    ...     y = A @ x
    """
    return _in_force({name: parse_setting(name, value) for name, value in given.items()})


@contextmanager
def _in_force(values: dict[str, Any]) -> Iterator[Options]:
    token = _current.set(InForce(get_options()._replace(**values)))
    _announce()
    try:
        yield get_options()
    finally:
        _current.reset(token)
        _announce()


@contextmanager
def carried(made_under: Options) -> Iterator[None]:
    """Apply `made_under` inside the block if this thread has no options of its own, as torch's for backward passes."""
    if _current.get() is not None:
        yield
        return
    token = _current.set(InForce(made_under))
    try:
        yield
    finally:
        _current.reset(token)


def blas_threads() -> str | None:
    """Return the number of OpenBLAS threads that the environment sets, as text; None where it sets none (all cores)."""
    names = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")  # in the order in which OpenBLAS reads them
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def in_continuous_integration() -> bool:
    """Return whether the variable CI is set; progress bars are not drawn then."""
    return bool(os.environ.get("CI"))


def is_strict() -> bool:
    """Return whether programming errors of the tuner are raised (AUTOSPARSE_STRICT=1, for tests), not contained."""
    return os.environ.get("AUTOSPARSE_STRICT", "0") not in ("", "0")


def child_environment(**extra: str) -> dict[str, str]:
    """Return the environment for a child process (a compiler): the user's, with C messages in English."""
    return {**os.environ, "LC_ALL": "C", **extra}


def measuring_environment(cache_dir: str) -> dict[str, str]:
    """Return the environment of a measuring child: a cache of its own, and no OMP_NUM_THREADS (Dask sets it to 1)."""
    kept = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    return {**kept, SETTINGS["cache_dir"].env: cache_dir, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
