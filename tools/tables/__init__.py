"""What `tools/tables` is made of."""
