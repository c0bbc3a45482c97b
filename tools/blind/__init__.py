"""Networks that nobody has chosen: drawn by a seed, measured once on every backend, on record for good."""
