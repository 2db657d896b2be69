"""Loop IR: an index expression and a schedule, lowered to loops."""

from __future__ import annotations
