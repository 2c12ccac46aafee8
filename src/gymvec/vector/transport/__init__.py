"""What crosses between the parent and the workers."""
