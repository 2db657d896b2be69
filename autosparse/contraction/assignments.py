"""Assignment that an einsum computes, and which of its tensors have a sparsity pattern."""

from __future__ import annotations

from dataclasses import dataclass

from autosparse.contraction.cin.nodes import Assign, TensorAccess, reads
from autosparse.contraction.cin.parser import parse


@dataclass(frozen=True, slots=True)
class TensorAssignment:
    """Assignment such as ``A[i,j] += B[i,k] * C[j,k]``; `sparse` names its tensors with a sparsity pattern."""

    statement: Assign
    sparse: frozenset[str]

    @classmethod
    def of(cls, text: str, *, sparse: str) -> TensorAssignment:
        """Parse text such as ``"A[i,j] += B[i,k] * C[j,k]"`` and the letters of its sparse tensors."""
        statement = parse(text)
        assert isinstance(statement, Assign)
        return cls(statement, frozenset(sparse))

    @property
    def indices(self) -> tuple[str, ...]:
        """All indices, in alphabetical order."""
        accesses = [self.statement.lhs, *reads(self.statement)]
        return tuple(sorted({i for access in accesses for i in access.indices}))

    @property
    def inputs(self) -> tuple[TensorAccess, ...]:
        """Distinct reads of sparse inputs."""
        return tuple(dict.fromkeys(access for access in reads(self.statement) if access.tensor in self.sparse))

    def is_sparse(self, tensor: str) -> bool:
        """Return whether `tensor` has a sparsity pattern: sparse inputs and outputs, and every workspace."""
        return tensor in self.sparse or tensor[0] == "w"

    def __str__(self) -> str:
        return f"{self.statement} with sparse {', '.join(sorted(self.sparse))}"
