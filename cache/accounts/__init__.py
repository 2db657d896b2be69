"""Accounts: the time that earlier processes spent on each problem, and its plan's key, in one small file."""
