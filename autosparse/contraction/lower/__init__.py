"""Programs in concrete index notation to C, and their execution."""

from __future__ import annotations
