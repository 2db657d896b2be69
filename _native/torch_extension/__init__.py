"""Module in C++ for the installed PyTorch: tests of the override's state and small sparse products without Python."""
