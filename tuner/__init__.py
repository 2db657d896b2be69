"""Tuner: from a Problem to a good SuperSchedule. Imported as `autosparse.tuner` only."""
