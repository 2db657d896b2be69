"""Loop IR: index expression and schedule lowered to loops."""

from __future__ import annotations
