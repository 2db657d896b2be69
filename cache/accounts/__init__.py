"""Accounts: what earlier processes spent on each problem, and where its plan lies; one small file for all problems."""
