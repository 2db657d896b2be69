"""This machine's rates (bandwidths, gathers, operations, starts of threads): measured once, stored, read by models."""
