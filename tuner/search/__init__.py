"""Search: from a problem to a plan by predicting, measuring and stopping in time."""

from __future__ import annotations
