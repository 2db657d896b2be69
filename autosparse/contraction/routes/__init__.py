"""Expressions that something of the library computes faster than a generated program would."""
