"""Asymptotic cost of programs: sets of tasks, represented as unions of conjunctive queries, and their comparison."""

from __future__ import annotations
