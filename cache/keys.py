"""Keys: canonical JSON, digests, file names, and PlanKey, which names everything a plan depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, Protocol

from autosparse.core.values import dataclass
from autosparse.ops import names

if TYPE_CHECKING:
    from autosparse.core.problem import Problem

PLAN_SCHEMA: Final = 3
"""Raise when the layout or the meaning of a plan record changes."""
SCHEMAS: Final[Mapping[str, int]] = {
    "plan": PLAN_SCHEMA, "history": 1, "machine": 2, "features": 1, names.EINSUM: 1, "device_plan": 1, "failure": 1,
}  # fmt: skip
"""Kind of record -> version of its layout. Part of the folder's name: versions live side by side."""

_HEX: Final = frozenset("0123456789abcdef")
MAX_KEY_CHARS: Final = 4096
PREFIX_DIGITS: Final = 8


def digest(content: bytes) -> str:
    """32 hex digits (blake2b) that name or guard `content`."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _as_plain(value: Any) -> Any:  # Any: whatever json cannot write itself
    """NumPy scalars as Python's own; anything else is no JSON."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not JSON")


def canonical_json(value: Mapping[str, Any]) -> str:
    """One text per value: sorted keys, no spaces, floats by `repr` (exact)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_as_plain)


def file_name(key: str) -> str:
    """`key` as a file name that is safe on every file system: lower-case hex stays, all else is hashed."""
    is_plain = 16 <= len(key) <= 64 and _HEX.issuperset(key)
    return key if is_plain else digest(key.encode("utf-8", "surrogatepass"))


class ToolchainIdentity(Protocol):
    """Who makes the kernels that a plan chooses from: `autosparse._native.kernels.identity.Toolchain`."""

    @property
    def implementation(self) -> str:
        """What generates them."""

    @property
    def compiler(self) -> str:
        """Who compiles them."""

    @property
    def emitter(self) -> str:
        """Digest of the sources that emit."""

    @property
    def runtime(self) -> str:
        """Digest of the precompiled kernels."""


def pattern_prefix_of(pattern: str) -> str:
    """What the names of all plans begin with whose pattern has this hash."""
    return digest(pattern.encode())[:PREFIX_DIGITS]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanKey:
    """Everything a plan depends on, and nothing else: no values, no addresses, no time."""

    pattern: str  # Pattern.sparsity_hash: shape, indptr and indices
    operation: str
    transposed: bool
    columns_bucket: int  # problem.columns_bucket of the dense operand's columns
    dtype: str
    index_dtype: str
    threads: int
    deterministic: bool
    target: str  # Target.key()
    space: str  # signature of what the search could choose from
    implementation: str  # of the generated kernels that raced: who emits them
    compiler: str  # ... and who compiles them
    emitter: str  # digest of the sources that emit
    runtime: str  # digest of the precompiled kernels that they raced against
    schema: int = PLAN_SCHEMA

    @classmethod
    def of(cls, problem: Problem, *, space: str, toolchain: ToolchainIdentity) -> PlanKey:
        """The key of `problem` for a search in `space` among kernels of `toolchain`."""
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
        )

    def to_json(self) -> dict[str, Any]:
        """JSON values by field."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def stable_hash(self) -> str:
        """32 hex digits, the same in every process and on every machine; the first ones are `pattern_prefix`."""
        return self.pattern_prefix + digest(canonical_json(self.to_json()).encode())[PREFIX_DIGITS:]

    @property
    def pattern_prefix(self) -> str:
        """What the hashes of all keys of this pattern begin with: they lie side by side in the cache."""
        return pattern_prefix_of(self.pattern)

    def differences(self, other: Mapping[str, Any]) -> tuple[str, ...]:
        """Fields in which the key that `to_json` gave as `other` is another one."""
        return tuple(name for name, value in self.to_json().items() if other.get(name) != value)
