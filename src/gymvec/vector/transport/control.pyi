from typing import Final, SupportsIndex

from typing_extensions import disjoint_base

LINE: Final[int]
MAX_OPCODE: Final[int]
COMMAND_BITS: Final[int]
IMMEDIATE: Final[int]
SECOND_SET: Final[int]
ORPHANED_EXIT: Final[int]
HAS_FUTEX: Final[bool]

def header_size() -> int: ...
def queue_size(num_envs: SupportsIndex) -> int: ...
def parent_alive(pid: SupportsIndex) -> bool: ...

@disjoint_base
class _Mapping:
    @property
    def closed(self) -> bool: ...
    @property
    def wakes(self) -> int: ...
    @property
    def sleeps(self) -> int: ...
    def close(self) -> None: ...
