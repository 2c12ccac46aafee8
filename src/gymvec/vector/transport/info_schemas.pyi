from collections.abc import Iterable
from enum import IntFlag
from typing import Any, Final, SupportsIndex, final

import numpy as np
import numpy.typing as npt
from typing_extensions import Self, disjoint_base

MAX_SCHEMAS: Final[int]

class InfoPut(IntFlag):
    IN_SLOT = 0
    WITH_MESSAGE = 1
    WITH_SCHEMA = 2

@disjoint_base
class Field:
    @property
    def key(self) -> str: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def offset(self) -> int: ...
    @property
    def nested(self) -> Schema | None: ...

@final
class Schema:
    @property
    def fields(self) -> tuple[Field, ...]: ...
    @property
    def signature(self) -> tuple[Any, ...]: ...

def schema_of(info: Any, size: int) -> Schema | None: ...

@final
class SlotWriter:
    def __new__(cls, slots: npt.NDArray[np.uint8]) -> Self: ...
    def clear(self, env: SupportsIndex) -> None: ...
    @property
    def new_schema(self) -> tuple[int, tuple[Any, ...]] | None: ...
    def put(self, env: SupportsIndex, info: Any) -> InfoPut: ...

def same_schema(
    slots: npt.NDArray[np.uint8],
    table: npt.NDArray[np.int32],
    workers: npt.NDArray[np.int32],
    out: npt.NDArray[np.int32],
) -> int: ...

@disjoint_base
class SlotColumn: ...

@final
class SlotColumns:
    def __new__(cls, slots: npt.NDArray[np.uint8], columns: Iterable[tuple[Any, ...]]) -> Self: ...
    def infos(self) -> dict[str, Any]: ...
