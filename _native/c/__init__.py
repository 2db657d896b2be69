"""Generated kernels in C: emission from the loop IR, and compilation."""

from __future__ import annotations
