from collections.abc import Iterable
from typing import Any, final

from gymvec._rows import RowWriter

@final
class TreeWriter:
    def __init__(self, parts: Iterable[tuple[Any, RowWriter | TreeWriter | None]]) -> None: ...
    def __call__(self, value: Any) -> list[Any]: ...
