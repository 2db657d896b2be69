"""NumPy's classes for arrays with a fixed purpose, named by that purpose.

Values and index arrays of users have any type of `autosparse.scalar`. The classes here are for arrays that the library
makes: a module that needs one imports it from here, and does not choose a width of its own.
"""

from __future__ import annotations

import numpy as np

Flag = np.bool_
Byte = np.uint8
HalfBits = np.uint16
"""Bits of half-precision values, and 16-bit coordinates."""
Word = np.uint32
Hash = np.uint64
Sign = np.int8
SmallCode = np.int8
"""Codes of schedules and rounded weights in files."""
ProgramCode = np.int16
"""Codes of schedules, which models read."""
NarrowIndex = np.int32
"""Coordinates, and positions of fewer than 2^31 entries."""
WideIndex = np.int64
"""Positions, permutations and counts."""
NativeIndex = np.intp
"""NumPy's own index type."""
Half = np.float16
NarrowReal = np.float32
"""Features, and weights of cost models."""
Real = np.float64
"""SciPy's default type; costs and estimates."""
Complex = np.complex128
"""Complex numbers of the precision of `Real`."""
