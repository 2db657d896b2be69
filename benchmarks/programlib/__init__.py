"""Whole programs, each written once for `scipy.sparse` and `autosparse`: inputs, programs and the race."""
