"""Index expressions: the formula of an operation as data, read by lowering, the interpreter and `explain`."""

from __future__ import annotations

from autosparse.core.values import dataclass


@dataclass(frozen=True, slots=True)
class Access:
    """Read or write of a tensor at indices, such as ``B[k,j]``."""

    tensor: str
    indices: tuple[str, ...]

    def without(self, missing: frozenset[str]) -> Access:
        """Return the access without the indices in `missing`, which have extent 1."""
        return Access(self.tensor, tuple(index for index in self.indices if index not in missing))

    def __str__(self) -> str:
        return f"{self.tensor}[{','.join(self.indices)}]"


@dataclass(frozen=True, slots=True)
class IndexExpression:
    """Formula ``output += sparse * dense[0] * dense[1] ...``, summed over the indices that the output does not have.

    `sampled`: the output is sparse and has the entries of the sparse operand, one result each (SDDMM). `more_sparse`:
    further sparse operands. `sparse_output`: the product itself determines the output's entries (SpGEMM).
    """

    output: Access
    sparse: Access
    dense: tuple[Access, ...]
    sampled: bool = False
    more_sparse: tuple[Access, ...] = ()
    sparse_output: bool = False

    @property
    def indices(self) -> tuple[str, ...]:
        """Indices of the expression, each once: those of the sparse operand, then the others."""
        accesses = (self.sparse, *self.more_sparse, *self.dense)
        return tuple(dict.fromkeys(index for access in accesses for index in access.indices))

    @property
    def dense_indices(self) -> tuple[str, ...]:
        """Indices that no sparse operand has."""
        stored = {index for access in (self.sparse, *self.more_sparse) for index in access.indices}
        return tuple(index for index in self.indices if index not in stored)

    @property
    def is_plain_product(self) -> bool:
        """Return whether one sparse and one dense operand give a dense output, whose kernels take both by name."""
        return len(self.dense) == 1 and not (self.sampled or self.more_sparse or self.sparse_output)

    @property
    def reason_not_lowered(self) -> str | None:
        """Reason why no loops are generated for the expression, or None."""
        if self.more_sparse:
            return f"{self} has {1 + len(self.more_sparse)} sparse operands: loops are generated for one"
        return f"the output of {self} is sparse with entries of its own" if self.sparse_output else None

    def without(self, missing: frozenset[str]) -> IndexExpression:
        """Return the expression without the indices in `missing`, which have extent 1 (SpMV is SpMM without j)."""
        dense = tuple(access.without(missing) for access in self.dense)
        return IndexExpression(
            self.output.without(missing), self.sparse, dense, self.sampled, self.more_sparse, self.sparse_output
        )

    def __str__(self) -> str:
        return f"{self.output} += {' * '.join(map(str, (self.sparse, *self.more_sparse, *self.dense)))}"
