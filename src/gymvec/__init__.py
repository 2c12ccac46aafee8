"""``gymnasium.vector``, compiled: the same names and results, far less time."""

from gymvec import utils
from gymvec.install import install, installation, installed, uninstall

__all__ = ["install", "installation", "installed", "uninstall", "utils"]
