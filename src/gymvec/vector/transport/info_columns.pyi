from collections.abc import Iterable
from typing import Any, final

import numpy as np
import numpy.typing as npt
from typing_extensions import Self, disjoint_base

@disjoint_base
class Column: ...

@final
class SlotColumns:
    def __new__(cls, slots: npt.NDArray[np.uint8], columns: Iterable[tuple[Any, ...]]) -> Self: ...
    def infos(self) -> dict[str, Any]: ...
