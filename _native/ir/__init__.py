"""Loop IR: an index expression and a schedule, lowered to loops; and keys of kernels, which need neither."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

SPEC_VERSION: Final = 1
"""Version of the meaning of a KernelSpec; increase it when that changes.

The generated source is part of the artefact's key in any case.
"""


def key_of(operation: str, schedule: Mapping[str, Any], types: tuple[str, str, str], *more: object) -> str:
    """Return 32 hexadecimal digits.

    `schedule` holds the fields of a schedule on which code depends, its format as the text of a compiled one. `types`
    are the dtype, the index dtype and the instruction set, and `more` the other facts of a spec.
    """
    facts = [SPEC_VERSION, operation, schedule, *types, *more]
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
