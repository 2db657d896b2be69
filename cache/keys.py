"""Keys of cache entries: canonical JSON, digests, file names, and PlanKey, which has everything a plan depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from autosparse.cache.trust import PLAN_SCHEMA

from autosparse.core.values import dataclass

if TYPE_CHECKING:
    from autosparse._native.kernels.identity import Toolchain

    from autosparse.core.problem import Problem
    from autosparse.core.solver import Solver

_HEX: Final = frozenset("0123456789abcdef")
MAX_KEY_CHARS: Final = 4096
"""Maximum length of a key, in characters."""
PREFIX_DIGITS: Final = 8
"""Number of hexadecimal digits of a pattern's hash with which its plans' names begin."""


def digest(content: bytes) -> str:
    """Return the blake2b digest of `content` as 32 hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _as_plain(value: Any) -> Any:  # Any: values that json cannot write
    """Convert a NumPy scalar to a Python number; raise TypeError for anything else."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not JSON")


def canonical_json(value: Mapping[str, Any]) -> str:
    """Return a unique text for a value: sorted keys, no spaces, floats by `repr` (exact)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_as_plain)


def file_name(key: str) -> str:
    """Return a file name for `key` that is valid everywhere: lower-case hexadecimal stays, anything else is hashed."""
    is_plain = 16 <= len(key) <= 64 and _HEX.issuperset(key)
    return key if is_plain else digest(key.encode("utf-8", "surrogatepass"))


def pattern_prefix_of(pattern: str) -> str:
    """Return the hexadecimal digits with which the keys of all plans of a pattern begin, given the pattern's hash."""
    return digest(pattern.encode())[:PREFIX_DIGITS]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanKey:
    """Facts that determine a plan, by which it is stored; values, addresses and times are not among them."""

    pattern: str  # Pattern.sparsity_hash: shape, indptr and indices
    operation: str
    transposed: bool
    columns_bucket: int  # problem.columns_bucket of the number of dense columns
    dtype: str
    index_dtype: str
    threads: int
    deterministic: bool
    target: str  # Target.key()
    space: str  # signature of the search space
    implementation: str  # implementation that generated the timed kernels
    compiler: str  # compiler of the timed kernels
    emitter: str  # digest of the code generator's sources
    runtime: str  # digest of the precompiled kernels, which were timed as well
    solvers: str = ""  # registered solvers and vendors' libraries that may compete
    schema: int = PLAN_SCHEMA

    @classmethod
    def of(cls, problem: Problem, *, space: str, toolchain: Toolchain, solvers: Iterable[Solver] = ()) -> PlanKey:
        """Return the key of `problem` for a search in `space` among kernels of `toolchain` and further `solvers`."""
        from autosparse.core.problem import columns_bucket

        return cls(
            pattern=problem.pattern.sparsity_hash,
            operation=problem.name,
            transposed=problem.transposed,
            columns_bucket=columns_bucket(problem.n_dense_cols),
            dtype=problem.dtype,
            index_dtype=problem.pattern.index_dtype,
            threads=problem.threads,
            deterministic=problem.deterministic,
            target=problem.target.key(),
            space=space,
            implementation=toolchain.implementation,
            compiler=toolchain.compiler,
            emitter=toolchain.emitter,
            runtime=toolchain.runtime,
            solvers=", ".join(f"{one.name} {getattr(one, 'version', '')}".strip() for one in solvers),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def stable_hash(self) -> str:
        """Return the key as 32 hexadecimal digits, equal on all machines; the first ones are `pattern_prefix`."""
        return self.pattern_prefix + digest(canonical_json(self.to_json()).encode())[PREFIX_DIGITS:]

    @property
    def pattern_prefix(self) -> str:
        """First digits of the stable hash, equal for all keys of this pattern and used as the name of their folder."""
        return pattern_prefix_of(self.pattern)

    def differences(self, other: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the fields in which this key differs from `other`, a key as returned by `to_json`."""
        return tuple(name for name, value in self.to_json().items() if other.get(name) != value)
