"""What `tools/tables.py` is made of."""
