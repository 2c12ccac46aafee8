"""gymvec is ``gymnasium.vector``, compiled: the same names and results in far less time."""

from gymvec import utils, vector
from gymvec.make import make_vec
from gymvec.patch import install, installation, installed, uninstall
from gymvec.tune import autotune
from gymvec.vector import (
    AsyncVectorEnv,
    AutoresetMode,
    SyncVectorEnv,
    VectorActionWrapper,
    VectorEnv,
    VectorObservationWrapper,
    VectorRewardWrapper,
    VectorWrapper,
    WorkerDiedError,
)

__all__ = [
    "VectorEnv",
    "VectorWrapper",
    "VectorObservationWrapper",
    "VectorActionWrapper",
    "VectorRewardWrapper",
    "SyncVectorEnv",
    "AsyncVectorEnv",
    "WorkerDiedError",
    "utils",
    "AutoresetMode",
    "make_vec",
    "autotune",
    "vector",
    "install",
    "installation",
    "installed",
    "uninstall",
]
