"""Tests of copies of light matrices by the module `copy`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.light.test_light import printed


@pytest.mark.parametrize("loaded", ["", "light.complete()"])
def test_copies_see_writes_where_those_of_scipy_see_them(loaded):
    lines = f"""
import copy
found = []
for one in (A, m.copy()):
    shallow, deep = copy.copy(one), copy.deepcopy([one, one.indices])
    one @ x, shallow @ x, deep[0] @ x
    {loaded}
    shallow.data[0] = 100.0
    one.indices[1] = 0
    deep[1][2] = 0
    found.append([(each @ x).tolist() for each in (one, shallow, deep[0])])
shallow, deep = copy.copy(A), copy.deepcopy(A)
deep.indices[0] = shallow.indices[0] = 10**6
for each in (A, shallow, deep):
    try:
        each @ x
    except ValueError as error:
        found.append(type(error).__name__)
print(json.dumps(found))
"""
    ours, theirs, *errors = printed(lines)
    assert np.allclose(ours, theirs)
    assert errors == ["StructureError"] * 3
