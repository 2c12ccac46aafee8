from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

def gather_rows(
    block: npt.NDArray[Any], index: npt.NDArray[np.int64], out: npt.NDArray[Any]
) -> bool: ...
def view_rows(
    buffer: Any, dtype: npt.DTypeLike, shape: Sequence[int], n: SupportsIndex
) -> npt.NDArray[Any]: ...
