"""Stands before scikit-learn in processes that tests start, which do not use it (tests/support/start.py)."""

raise ImportError("left out: see tests/support/start.py")
