"""What `tools/explain` is made of."""
