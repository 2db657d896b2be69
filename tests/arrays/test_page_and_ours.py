"""Tests of the HTML that a notebook shows for a matrix, and of the namespace whose constructors return our classes."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse import scipy_compat

m = sps.random_array((300, 200), density=0.05, random_state=np.random.default_rng(0), format="csr")


@pytest.mark.parametrize("make", [asp.csr, asp.csc, lambda m: asp.csr(m)[:1], lambda m: asp.csr((0, 5))])
def test_page_is_well_formed_and_says_what_is_stored(make):
    A = make(m)
    text = A._repr_html_()
    ET.fromstring(f"<div>{text}</div>")
    assert f"{A.nnz:,}" in text
    assert str(A.dtype) in text


def test_picture_shows_where_entries_are():
    A = asp.csr((np.ones(1), ([39], [0])), shape=(40, 40))
    assert re.findall(r"<rect x='(\d+)' y='(\d+)'", A._repr_html_()) == [("0", "39")]
    assert re.findall(r"<rect x='(\d+)' y='(\d+)'", A.T._repr_html_()) == [("39", "0")]
    assert re.findall(r"<rect x='(\d+)' y='(\d+)'", asp.csc(A)._repr_html_()) == [("0", "39")]


def test_constructors_of_ours_return_ours():
    for made in (
        scipy_compat.vstack([m, m]),
        scipy_compat.random_array((5, 4)),
        scipy_compat.eye_array(3),
        scipy_compat.kron(m, m),
        scipy_compat.eye(3),
    ):
        assert isinstance(made, asp.csr_array | asp.csr_matrix)
    assert isinstance(scipy_compat.vstack([m, m], format="csc"), asp.csc_array)
    assert scipy_compat.eye_array(3, format="dia").format == "dia"
    np.testing.assert_array_equal(scipy_compat.vstack([m, m]).toarray(), sps.vstack([m, m]).toarray())
    assert scipy_compat.issparse(m) is True
    assert scipy_compat.csr_array is asp.csr_array
    assert scipy_compat.linalg is asp.linalg


def test_dir_shows_public_names_only():
    names = set(dir(asp))
    assert {"csr", "einsum", "dask", "vstack", "__version__"} <= names
    assert not names & {"os", "gc", "importlib", "Any", "TYPE_CHECKING", "annotations", "forking"}
