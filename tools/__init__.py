"""Programs beside the package: `python -m tools.NAME`, from the root of a clone."""
