"""What vector environments give on an environment of one's own: ``python -m gymvec compare``.

Nothing of this is imported by ``import gymvec``.
"""
