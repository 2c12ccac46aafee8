"""What the operating system says and does: limits, signals."""
