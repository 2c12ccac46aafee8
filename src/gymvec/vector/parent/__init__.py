"""The part of a vector environment that runs in the learner's process."""
