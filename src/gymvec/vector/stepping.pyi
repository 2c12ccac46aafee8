from collections.abc import Callable
from typing import Any, Final, Protocol, SupportsIndex, final

import numpy as np
import numpy.typing as npt
from gymnasium import Env
from typing_extensions import Self

class _Infos(Protocol):
    def add(self, info: Any, index: int) -> None: ...

NEXT_STEP: Final[int]
SAME_STEP: Final[int]
DISABLED: Final[int]

@final
class StepBlocks:
    def __new__(
        cls,
        rewards: npt.NDArray[np.float64],
        terminations: npt.NDArray[np.bool_],
        truncations: npt.NDArray[np.bool_],
        first: int = 0,
    ) -> Self: ...
    def put(self, index: SupportsIndex, reward: Any, terminated: Any, truncated: Any) -> bool: ...
    def clear(self, index: SupportsIndex) -> None: ...

def step_environments(
    envs: list[Env[Any, Any]],
    actions: list[Any],
    observations: list[Any],
    blocks: StepBlocks,
    ended: npt.NDArray[np.bool_],
    autoreset_mode: int,
    infos: _Infos,
    keep: Callable[[Any], Any],
) -> None: ...
