from collections.abc import Iterable, Mapping
from typing import Any, SupportsIndex, final

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
class InfoBatch:
    def __init__(self, num_envs: SupportsIndex) -> None: ...
    @property
    def infos(self) -> dict[str, Any]: ...
    def add(self, info: Mapping[str, Any], index: SupportsIndex) -> None: ...
