from collections.abc import Iterable
from typing import Any, SupportsIndex

import numpy.typing as npt
from gymnasium import Space

def concatenate(space: Space[Any], items: Iterable[Any], out: Any) -> npt.NDArray[Any]: ...
def write(space: Space[Any], index: SupportsIndex, value: Any, shared_memory: Any) -> None: ...
def read(space: Space[Any], shared_memory: Any, n: int = 1) -> npt.NDArray[Any]: ...
def view(
    space: Space[Any],
    shared_memory: Any,
    dtype: npt.DTypeLike,
    shape: tuple[int, ...],
    n: int | None,
) -> npt.NDArray[Any]: ...
def row_index(index: SupportsIndex, n: int) -> int: ...
