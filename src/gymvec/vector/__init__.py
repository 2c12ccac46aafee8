"""The twin of ``gymnasium.vector``: its names, with gymvec's vector environments."""

from gymnasium.vector import (
    AutoresetMode,
    VectorActionWrapper,
    VectorEnv,
    VectorObservationWrapper,
    VectorRewardWrapper,
    VectorWrapper,
)

from gymvec import utils
from gymvec.vector.async_vector_env import AsyncVectorEnv
from gymvec.vector.errors import WorkerDiedError
from gymvec.vector.sync_vector_env import SyncVectorEnv

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
]
