"""Strategies: random points, TPE (Optuna), and a bandit over mutations like OpenTuner's."""

from __future__ import annotations

import importlib
import logging
import math
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np
from autosparse.tuner.space.template import Categorical

from autosparse.core.schedule import SuperSchedule
from searchlib.encoding import Encoding, Point

WINDOW: Final = 500
"""Number of last trials by which the bandit rates its operators (OpenTuner's default)."""
EXPLORATION: Final = 0.05
"""Weight of the bandit's exploration term (OpenTuner's default)."""
N_ELITE: Final = 10
"""Number of best points that mutations start from."""


class Objective(Protocol):
    """Protocol of a cost function of schedules that counts its calls."""

    def __call__(self, schedule: SuperSchedule) -> float:
        """Return the predicted ratio."""


def random(objective: Objective, encoding: Encoding, n_trials: int) -> None:
    """Evaluate points drawn uniformly."""
    rng = np.random.default_rng(0)
    for _ in range(n_trials):
        objective(encoding.schedule(encoding.random(rng)))


def tpe(objective: Objective, encoding: Encoding, n_trials: int) -> None:
    """Search by Optuna's tree-structured Parzen estimator, multivariate; a permutation has a sort key per item.

    A study chooses the space, and a study of each space its parameters, from the trials in that space.
    """
    optuna = importlib.import_module("optuna")
    optuna.logging.set_verbosity(logging.ERROR)
    sampler = importlib.import_module("searchlib.optuna_arrays").ArraySampler
    root, *own = (optuna.create_study(sampler=sampler(seed)) for seed in range(1 + len(encoding.spaces)))
    for _ in range(n_trials):
        chosen = root.ask()
        which = chosen.suggest_categorical("space", list(range(len(encoding.spaces))))
        trial = own[which].ask()
        cost = math.log(objective(encoding.schedule(_asked(trial, encoding, which))))
        root.tell(chosen, cost)
        own[which].tell(trial, cost)


def _asked(trial: Any, encoding: Encoding, which: int) -> Point:  # Any: optuna's trial
    values: dict[str, Any] = {}
    for one in encoding.spaces[which].parameters:
        if isinstance(one, Categorical):
            values[one.name] = trial.suggest_categorical(one.name, list(range(one.size)))
        else:
            values[one.name] = [trial.suggest_float(f"{one.name}.{n}", 0.0, 1.0) for n in range(len(one.items))]
    return encoding.point(which, values)


def bandit(objective: Objective, encoding: Encoding, n_trials: int) -> None:
    """Search by a bandit over operators, as OpenTuner does (Ansel et al. 2014, section 4).

    Operators make a point from the best ones so far: random, mutation of one, three or eight parameters, crossover.
    Each trial uses the operator with the greatest sum of its area under the curve of improvements, over the last
    `WINDOW` trials, and an exploration term.
    """
    rng = np.random.default_rng(0)
    elite: list[tuple[float, Point]] = []

    def one_of_elite() -> Point:
        return elite[int(rng.integers(len(elite)))][1] if elite else encoding.random(rng)

    operators: list[Callable[[], Point]] = [
        lambda: encoding.random(rng),
        lambda: encoding.neighbour(one_of_elite(), rng),
        lambda: encoding.neighbour(one_of_elite(), rng, n_changes=3),
        lambda: encoding.neighbour(one_of_elite(), rng, n_changes=8),
        lambda: encoding.crossed(one_of_elite(), one_of_elite(), rng),
        lambda: encoding.neighbour(elite[0][1], rng) if elite else encoding.random(rng),
    ]
    history: deque[tuple[int, bool]] = deque(maxlen=WINDOW)
    for _ in range(n_trials):
        at = max(range(len(operators)), key=lambda one: _credit(history, one))
        point = operators[at]()
        ratio = objective(encoding.schedule(point))
        history.append((at, not elite or ratio < elite[0][0]))
        elite = sorted([*elite, (ratio, point)], key=lambda row: row[0])[:N_ELITE]


def _credit(history: deque[tuple[int, bool]], operator: int) -> float:
    """Return the rating of an operator: area under its curve of improvements, and exploration."""
    mine = [improved for at, improved in history if at == operator]
    if not mine:
        return math.inf
    area = sum(n for n, improved in enumerate(mine, start=1) if improved)
    share = 2.0 * area / (len(mine) * (len(mine) + 1))
    return share + EXPLORATION * math.sqrt(2.0 * math.log2(len(history)) / len(mine))
