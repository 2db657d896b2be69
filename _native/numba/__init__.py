"""Kernels compiled by numba, where there is no C compiler: emitted from the same loop IR."""

from __future__ import annotations
