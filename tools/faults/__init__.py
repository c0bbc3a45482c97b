"""Parts of tools/faults."""
