"""Horizontal fusion of two kernels of CUDA C++ sources (HFuse: Li, Zheng, Pekhimenko and Long, CGO 2022)."""
