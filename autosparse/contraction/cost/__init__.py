"""Asymptotic cost: sets of tasks as unions of conjunctive queries, and their comparison."""

from __future__ import annotations
