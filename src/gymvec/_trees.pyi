from collections.abc import Iterable
from typing import Any, Union, final

from gymvec._rows import RowWriter

@final
class TreeWriter:
    def __init__(self, parts: Iterable[tuple[Any, Union[RowWriter, TreeWriter, None]]]) -> None: ...
    def __call__(self, value: Any) -> list[Any]: ...
