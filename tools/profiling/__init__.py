"""What `dram_traffic.py` and `small_kernels.py` are made of."""
