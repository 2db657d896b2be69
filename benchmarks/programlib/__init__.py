"""Whole programs, each written once for `scipy.sparse` and `autosparse`: inputs, programs, the race, the report."""
