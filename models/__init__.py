"""The model zoo: the papers' workloads, one file each. `python -m models.crnn --mode=infer --config=small` runs one."""
