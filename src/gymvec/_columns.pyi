from collections.abc import Iterable
from typing import Any, final

import numpy as np
import numpy.typing as npt

@final
class SlotColumns:
    def __init__(
        self, slots: npt.NDArray[np.uint8], columns: Iterable[tuple[Any, ...]]
    ) -> None: ...
    def infos(self) -> dict[str, Any]: ...
