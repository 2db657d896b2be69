"""Enumerate the programs of one kernel; each module implements one stage."""

from __future__ import annotations
