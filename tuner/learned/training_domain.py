"""Training domain of a cost model: predictions outside it are not accepted unmeasured (docs/design/cost-models.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from autosparse.core.problem import Problem, columns_bucket
from autosparse.core.target import processor_of
from autosparse.core.values import dataclass
from autosparse.isa import ISAS
from autosparse.scalar import DOUBLE, SINGLE

COLLECTED: Final = SINGLE.name
"""Dtype of measurements whose model does not record one: the one that `collect` measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingDomain:
    """Dtypes, instruction sets, dense columns, threads and processor kinds that a model was trained on."""

    dtypes: frozenset[str] = frozenset()
    isas: frozenset[str] = frozenset()
    columns: frozenset[int] = frozenset()
    threads: frozenset[int] = frozenset()
    processors: frozenset[str] = frozenset()

    def is_foreign(self, problem: Problem) -> bool:
        """Return whether the training data lack the problem's processor, dtype or threads, which widens margins."""
        is_known = problem.dtype in self.dtypes and problem.threads in self.threads
        return not is_known or problem.target.processor not in self.processors

    def untrusted_reason(self, problem: Problem) -> str | None:
        """Return the part of `problem` outside the training domain as text, or None.

        A width counts as known when plans of it are shared with a trained width. Learned models of few columns are
        applied to the dtypes and the numbers of threads of TRANSFERRED, too.
        """
        is_transferred = columns_bucket(problem.n_dense_cols) in TRANSFERRED.columns and self is not STATISTICS
        others = TRANSFERRED if is_transferred else TrainingDomain()
        widths = {columns_bucket(n) for n in self.columns}
        is_new = {
            f"for {problem.dtype}": problem.dtype not in self.dtypes | others.dtypes,
            f"for {problem.n_dense_cols} columns": columns_bucket(problem.n_dense_cols) not in widths,
            f"with {problem.target.isa}": problem.target.isa not in self.isas,
            f"on {problem.threads} threads": problem.threads not in self.threads | others.threads,
        }
        new = [what for what, is_so in is_new.items() if is_so]
        return f"the model was not trained {' '.join(new)}" if new else None

    def __or__(self, other: TrainingDomain) -> TrainingDomain:
        """Return a domain with the values of both domains in every field."""
        return TrainingDomain(**{one.name: getattr(self, one.name) | getattr(other, one.name) for one in fields(self)})

    def to_data(self) -> dict[str, list[Any]]:
        """Return the domain as JSON-ready data; `of_model` reads it."""
        return {one.name: sorted(getattr(self, one.name)) for one in fields(self)}

    @classmethod
    def of_model(cls, op: str, about: Mapping[str, Any]) -> TrainingDomain:
        """Return the domain recorded in the metadata of a model of `op`, or derived from its name and machines.

        The domain is empty when the metadata cannot be read.
        """
        try:
            machines = about.get("machines", ())
            processors = frozenset(map(processor_of, machines))
            if (said := about.get("seen")) is not None:
                said = {"processors": processors, **said}
                return cls(**{one.name: frozenset(said[one.name]) for one in fields(cls)})
            digits = re.search(r"\d+$", op)
            return cls(
                dtypes=frozenset({COLLECTED}),
                isas=frozenset(str(one["isa"]) for one in machines),
                columns=frozenset({int(digits.group()) if digits else 1}),
                threads=frozenset(int(one["n_cores"]) for one in machines),
                processors=processors,
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return cls()


TRANSFERRED: Final = TrainingDomain(
    dtypes=frozenset({SINGLE.name, DOUBLE.name}), threads=frozenset({1}), columns=frozenset({1, 8})
)
"""Dtypes and numbers of threads to which learned models of others are applied, with the margin of an unseen processor.

Measured errors for vectors and 8 columns are not larger than on such a processor; those for 32 columns are, and those
of the statistics model for 8 columns (benchmarks/results/oracle.md).
"""
STATISTICS: Final = TrainingDomain(
    dtypes=frozenset({COLLECTED}), isas=frozenset(row.name for row in ISAS.values() if row.has_statistics),
    columns=frozenset({1, 16, 32, 256}),
    threads=frozenset({2}),
)  # fmt: skip
"""Domain in which the analytic model's margins were determined (`search.acceptance`, docs/design/cost-models.md)."""
