"""Lower programs in concrete index notation to C or Python, compile and run them."""

from __future__ import annotations
