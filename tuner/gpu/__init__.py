"""Candidate schedules for a GPU, and the cost model that ranks them."""
