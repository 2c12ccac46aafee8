"""Sub-environment infos as one dict of arrays with masks.

The rules are those of ``gymnasium.vector.VectorEnv._add_info``, applied in the order in which
infos are added, with its results to the bit:

* The first value of a key makes its array: of the value's type for an int, float, bool or
  NumPy number, of the value's shape and dtype for an array, of objects for anything else.
  Later values are cast into it, truncated if need be.
* A nested dict becomes a nested dict of arrays.
* ``final_obs`` is always an array of objects.
* Each key has a boolean mask ``_key``: which environments have it.
"""

from gymvec._infos import InfoBatch, add_info, gather_infos

__all__ = ["InfoBatch", "add_info", "gather_infos"]
