from typing import SupportsIndex

from typing_extensions import Buffer, Self, disjoint_base

from gymvec.vector.transport.control import _Mapping

@disjoint_base
class Worker(_Mapping):
    def __new__(
        cls,
        buffer: Buffer,
        header_offset: SupportsIndex,
        queue_offset: SupportsIndex,
        num_envs: SupportsIndex,
        *,
        wait: str = "auto",
        polling: bool = False,
    ) -> Self: ...
    @property
    def opcode(self) -> int: ...
    def wait(self, timeout_s: float = ...) -> bool: ...
    def take(self) -> int: ...
    def answer(self, env: SupportsIndex) -> None: ...
    def flush(self) -> None: ...
    def watch_parent(self, pid: SupportsIndex) -> None: ...
