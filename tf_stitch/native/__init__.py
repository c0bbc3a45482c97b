"""The C++ half: the kernels of our ops and the graph hook, built at first use (see build.py)."""
