"""What `tools/explain.py` is made of."""
