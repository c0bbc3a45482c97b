"""The C++ half: the StitchOp kernels and the graph hook, built at first use (see build.py)."""
