"""What `python -m tools.tables` is made of."""
