from collections.abc import Iterable, Mapping
from typing import Any, SupportsIndex, final

from typing_extensions import Self

def add_info(
    vector_infos: dict[str, Any],
    env_info: Mapping[str, Any],
    index: SupportsIndex,
    num_envs: SupportsIndex,
) -> dict[str, Any]: ...
def gather_infos(
    items: Iterable[tuple[SupportsIndex, Mapping[str, Any]]], num_envs: SupportsIndex
) -> dict[str, Any]: ...

@final
class InfoColumn: ...

@final
class InfoBatch:
    def __new__(cls, num_envs: SupportsIndex) -> Self: ...
    @property
    def infos(self) -> dict[str, Any]: ...
    def add(self, info: Mapping[str, Any], index: SupportsIndex) -> None: ...
