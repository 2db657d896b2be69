"""Tests of the weight file format: round trips and errors for broken files, without torch."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse.tuner.learned.safetensors import DTYPES, read_safetensors
from autosparse.tuner.research.training.meaning import write_safetensors

from autosparse.errors import RecordError

TENSORS = {
    "layer1.0.kernel": np.arange(12, dtype=np.float32).reshape(3, 4),
    "none": np.zeros((0, 3), np.float32),
    "one": np.array(3, np.int64),
    **{name: np.arange(5).astype(text) for name, text in DTYPES.items()},
}


def test_safetensors_files_round_trip(tmp_path):
    path = tmp_path / "new" / "weights.safetensors"
    write_safetensors(path, TENSORS, {"format": "test", "words": "é"})
    tensors, metadata = read_safetensors(path)
    assert metadata == {"format": "test", "words": "é"}
    assert list(tensors) == list(TENSORS)
    for name, value in TENSORS.items():
        assert tensors[name].dtype == value.dtype
        np.testing.assert_array_equal(tensors[name], value)
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_the_format_is_that_of_the_library(tmp_path):
    library = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    path = tmp_path / "weights.safetensors"
    write_safetensors(path, TENSORS, {})
    for name, value in library.load_file(path).items():
        np.testing.assert_array_equal(value, TENSORS[name])
    library.save_file({"a": TENSORS["layer1.0.kernel"]}, tmp_path / "theirs")
    np.testing.assert_array_equal(read_safetensors(tmp_path / "theirs")[0]["a"], TENSORS["layer1.0.kernel"])


def test_broken_files_are_refused(tmp_path):
    path = tmp_path / "weights.safetensors"
    write_safetensors(path, TENSORS, {})
    whole = path.read_bytes()
    for cut in (0, 5, 8, 40, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(RecordError, match="no safetensors file"):
            read_safetensors(path)
    path.write_bytes(whole.replace(b"F32", b"X32"))
    with pytest.raises(RecordError):
        read_safetensors(path)
