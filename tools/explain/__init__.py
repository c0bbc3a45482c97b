"""What `python -m tools.explain` is made of."""
