"""What `cost_report.py` is made of."""
