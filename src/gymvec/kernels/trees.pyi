from collections.abc import Iterable
from typing import Any, final

from typing_extensions import Self

from gymvec.kernels.rows import RowWriter

@final
class TreeWriter:
    def __new__(cls, parts: Iterable[tuple[Any, RowWriter | TreeWriter | None]]) -> Self: ...
    def __call__(self, value: Any) -> list[Any]: ...
