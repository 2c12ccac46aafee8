from collections.abc import Callable, Iterable
from typing import Any, Final, SupportsIndex, final

import numpy as np
import numpy.typing as npt
from gymnasium.vector.async_vector_env import AsyncState
from typing_extensions import Self

from gymvec.vector.transport.control_parent import Parent

_Flags = npt.NDArray[np.bool_]
_Results = tuple[npt.NDArray[np.float64], _Flags, _Flags]

DONE: Final[int]
NOT_SENT: Final[int]
SENT: Final[int]

@final
class CallGate:
    state: AsyncState
    closed: bool
    forked: bool
    dead: bool
    replaced: bool
    timed_out: bool
    drained: bool
    unwritten: bool
    ready_first: bool
    indirect: bool
    def __new__(cls, idle: AsyncState, stepping: AsyncState) -> Self: ...
    @property
    def is_shut(self) -> bool: ...

@final
class StepResults:
    def __new__(
        cls,
        parts: Iterable[tuple[npt.NDArray[np.float64], _Flags, _Flags, _Flags]],
        blocks: Iterable[npt.NDArray[Any]] = (),
    ) -> Self: ...
    def collect(self) -> _Results: ...
    def step(
        self,
        gate: CallGate,
        doorbell: Parent,
        put: Callable[[Any, None], bool],
        actions: Any,
        opcode: SupportsIndex,
        timeout_s: float,
    ) -> int: ...
    def finish(self, gate: CallGate, doorbell: Parent, timeout_s: float) -> int: ...
    def take(self) -> tuple[_Results, list[npt.NDArray[Any]]]: ...
    def gather(self, envs: npt.NDArray[np.int64]) -> _Results: ...
    def has_message(self, env: SupportsIndex) -> bool: ...
    def messages(self) -> list[int]: ...
