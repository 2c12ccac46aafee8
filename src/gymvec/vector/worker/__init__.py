"""The part of a vector environment that runs in a worker process."""
