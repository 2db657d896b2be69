"""Index expressions: what an operation computes, as data that lowering, the interpreter and `explain` read."""

from __future__ import annotations

from autosparse.core.values import dataclass


@dataclass(frozen=True, slots=True)
class Access:
    """A tensor read or written at indices, as ``B[k,j]``."""

    tensor: str
    indices: tuple[str, ...]

    def without(self, missing: frozenset[str]) -> Access:
        """The access when the indices in `missing` have extent 1 and are not written."""
        return Access(self.tensor, tuple(index for index in self.indices if index not in missing))

    def __str__(self) -> str:
        return f"{self.tensor}[{','.join(self.indices)}]"


@dataclass(frozen=True, slots=True)
class IndexExpression:
    """``output += sparse * dense[0] * dense[1] ...``, summed over the indices that the output does not have.

    `sampled`: the output is sparse and has the entries of the sparse operand, one result each (SDDMM). `more_sparse`
    are further sparse operands; with `sparse_output` the output's entries are found by the product itself (SpGEMM).
    """

    output: Access
    sparse: Access
    dense: tuple[Access, ...]
    sampled: bool = False
    more_sparse: tuple[Access, ...] = ()
    sparse_output: bool = False

    @property
    def indices(self) -> tuple[str, ...]:
        """Every index once: those of the sparse operand, then the others."""
        accesses = (self.sparse, *self.more_sparse, *self.dense)
        return tuple(dict.fromkeys(index for access in accesses for index in access.indices))

    @property
    def dense_indices(self) -> tuple[str, ...]:
        """Indices that no sparse operand has."""
        stored = {index for access in (self.sparse, *self.more_sparse) for index in access.indices}
        return tuple(index for index in self.indices if index not in stored)

    @property
    def is_plain_product(self) -> bool:
        """Whether it is a sparse times one dense operand into a dense output: kernels take these two by name."""
        return len(self.dense) == 1 and not (self.sampled or self.more_sparse or self.sparse_output)

    @property
    def reason_not_lowered(self) -> str | None:
        """Why no loops are generated for it, or None."""
        if self.more_sparse:
            return f"{self} has {1 + len(self.more_sparse)} sparse operands: loops are generated for one"
        return f"the output of {self} is sparse with entries of its own" if self.sparse_output else None

    def without(self, missing: frozenset[str]) -> IndexExpression:
        """The expression when the indices in `missing` have extent 1 (SpMV is SpMM without j)."""
        dense = tuple(access.without(missing) for access in self.dense)
        return IndexExpression(
            self.output.without(missing), self.sparse, dense, self.sampled, self.more_sparse, self.sparse_output
        )

    def __str__(self) -> str:
        return f"{self.output} += {' * '.join(map(str, (self.sparse, *self.more_sparse, *self.dense)))}"
