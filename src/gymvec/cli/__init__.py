"""``python -m gymvec``."""
