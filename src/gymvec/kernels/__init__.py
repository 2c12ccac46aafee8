"""Loops on NumPy arrays, which know no spaces and no processes."""
