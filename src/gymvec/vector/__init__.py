"""The twin of ``gymnasium.vector``: its names, with gymvec's vector environments."""

from gymnasium.vector import (
    AsyncVectorEnv,
    AutoresetMode,
    VectorActionWrapper,
    VectorEnv,
    VectorObservationWrapper,
    VectorRewardWrapper,
    VectorWrapper,
)

from gymvec import utils
from gymvec.vector.sync_vector_env import SyncVectorEnv

__all__ = [
    "VectorEnv",
    "VectorWrapper",
    "VectorObservationWrapper",
    "VectorActionWrapper",
    "VectorRewardWrapper",
    "SyncVectorEnv",
    "AsyncVectorEnv",
    "utils",
    "AutoresetMode",
]
