"""Parts of tools/faults.py."""
