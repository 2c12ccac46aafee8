"""Times of vector environments, each in a process of its own.

Nothing of this is imported by ``import gymvec``.
"""
