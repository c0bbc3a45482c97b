"""What `calibrate.py` measures, and how."""
