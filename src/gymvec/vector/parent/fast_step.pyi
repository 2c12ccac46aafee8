from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex, final

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from gymvec.vector.transport.control_parent import Parent

_Flags = npt.NDArray[np.bool_]
_Results = tuple[npt.NDArray[np.float64], _Flags, _Flags]

@final
class StepResults:
    @property
    def sent(self) -> int: ...
    def __new__(
        cls,
        parts: Iterable[tuple[npt.NDArray[np.float64], _Flags, _Flags, _Flags]],
        blocks: Iterable[npt.NDArray[Any]] = (),
    ) -> Self: ...
    def collect(self) -> _Results: ...
    def step(
        self,
        doorbell: Parent,
        put: Callable[[Any, None], bool],
        actions: Any,
        opcode: SupportsIndex,
        timeout_s: float,
    ) -> tuple[_Results, list[npt.NDArray[Any]]] | tuple[()] | None: ...
    def finish(
        self, doorbell: Parent, timeout_s: float
    ) -> tuple[_Results, list[npt.NDArray[Any]]] | None: ...
    def gather(self, envs: npt.NDArray[np.int64]) -> _Results: ...
    def has_message(self, env: SupportsIndex) -> bool: ...
    def messages(self) -> list[int]: ...
