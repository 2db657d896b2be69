"""Native: from a SuperSchedule to machine code. Imported as `autosparse._native` only."""
