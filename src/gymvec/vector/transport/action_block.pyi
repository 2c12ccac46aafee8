from typing import Any, SupportsIndex, final

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

@final
class ActionBlock:
    def __new__(
        cls, rows: npt.NDArray[np.uint8], codes: npt.NDArray[np.uint8], shape: tuple[int, ...]
    ) -> Self: ...
    def put(self, actions: Any, envs: npt.NDArray[np.int64] | None = None) -> bool: ...
    def __call__(self, index: SupportsIndex) -> Any: ...
