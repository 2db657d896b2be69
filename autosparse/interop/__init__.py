"""Cooperation with other libraries. No module here imports a library that the process has not imported."""
