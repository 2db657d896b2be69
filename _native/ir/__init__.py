"""Loop IR: index expression and schedule lowered to loops, and the interpreter that is the oracle of all kernels."""

from __future__ import annotations
