from collections.abc import Callable
from typing import Any, SupportsIndex, final

import numpy as np
import numpy.typing as npt
from gymnasium import Env
from typing_extensions import Self

from gymvec.vector.stepping import StepBlocks
from gymvec.vector.transport.action_block import ActionBlock
from gymvec.vector.transport.control_worker import Worker
from gymvec.vector.transport.info_schemas import SlotWriter

@final
class Stepper:
    def __new__(
        cls,
        envs: list[Env[Any, Any]],
        writers: list[list[Callable[[Any], Any]]],
        blocks: StepBlocks,
        messages: npt.NDArray[np.bool_],
        slots: SlotWriter,
        autoreset_mode: int,
        first: int,
        keep: Callable[[Any], Any],
        send: Callable[[int, Any, Any], None],
    ) -> Self: ...
    def step(self, env: SupportsIndex, action: Any) -> None: ...
    def reset(self, env: SupportsIndex, **arguments: Any) -> None: ...

def serve_pass(
    doorbell: Worker,
    stepper: Stepper | None,
    step_command: int,
    actions: ActionBlock | Callable[[int], Any],
    commands: dict[int, Callable[[int], None]],
    fail: Callable[[int, BaseException], None],
    post: Callable[[], None],
) -> None: ...
