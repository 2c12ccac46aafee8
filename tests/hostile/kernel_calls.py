"""A good call of every callable of the extension modules, made anew each time."""

from __future__ import annotations

import multiprocessing
import types
from collections.abc import Callable
from typing import Any

import gymnasium.vector.utils as theirs
import numpy as np
from gymnasium.spaces import Box
from hostile_values import guarded
from scripted import Scripted

import gymvec.utils as ours
from gymvec.kernels import infos, rows, trees
from gymvec.utils import _array_spaces, _dispatch
from gymvec.vector import stepping
from gymvec.vector.parent import fast_step
from gymvec.vector.transport import (
    action_block,
    control,
    control_parent,
    control_worker,
    info_schemas,
    pipe,
)
from gymvec.vector.worker import stepper

MODULES = (
    action_block, control, control_parent, control_worker, _dispatch, infos, _array_spaces, pipe, fast_step,
    rows, stepper, info_schemas, stepping, trees,
)  # fmt: skip

SPACE = Box(-9, 9, (2,), np.float32)
ROW = np.ones(2, np.float32)
COLUMNS = [("a", 16, np.float64, ()), ("b", 24, np.int8, (3,))]
HUB = control.header_size()
LANE = control.queue_size(2)


def control_words() -> np.ndarray:
    """Memory for a parent and two workers of two environments each."""
    return guarded((HUB + 2 * LANE,), np.uint8)


def parent(words: Any = None) -> control_parent.Parent:
    return control_parent.Parent(control_words() if words is None else words, 0, queues())


def queues() -> list[tuple[int, int]]:
    return [(HUB, 2), (HUB + LANE, 2)]


def asked() -> tuple[control_parent.Parent, control_worker.Worker]:
    """Both sides, after a command to all."""
    words = control_words()
    one = parent(words)
    other = control_worker.Worker(words, 0, HUB, 2)
    one.send_all(3)
    return one, other


def answered() -> control_parent.Parent:
    one, other = asked()
    while (env := other.take()) >= 0:
        other.answer(env)
    other.flush()
    return one


def taken() -> control_worker.Worker:
    other = asked()[1]
    other.take()
    return other


def step_blocks() -> stepping.StepBlocks:
    return stepping.StepBlocks(*results()[:3])


def results() -> list[np.ndarray]:
    return [guarded((2,), np.float64), *(guarded((2,), np.bool_) for _ in range(3))]


def a_action_block() -> action_block.ActionBlock:
    return action_block.ActionBlock(guarded((2, 16), np.uint8), guarded((2,), np.uint8), (2,))


def slot_writer() -> info_schemas.SlotWriter:
    writer = info_schemas.SlotWriter(guarded((2, 64), np.uint8))
    writer.put(0, {"a": 1, "b": {"c": np.zeros(2)}})
    return writer


def schemas() -> tuple[np.ndarray, ...]:
    table = np.zeros((1, info_schemas.MAX_SCHEMAS + 1), np.int32)
    return np.zeros((2, 64), np.uint8), table, np.zeros(2, np.int32), guarded((2,), np.int32)


def info_batch() -> infos.InfoBatch:
    batch = infos.InfoBatch(2)
    batch.add({"a": 1.0, "b": np.zeros(2), "c": {"d": 1}}, 0)
    return batch


def a_pipe() -> pipe.MessagePipe:
    box, other = _both_ends()
    other.send_bytes(b"x")
    return box


def threaded() -> pipe.ThreadedMessagePipe:
    one, other = multiprocessing.Pipe()
    _kept[:] = [*_kept[-20:], one, other]
    other.send_bytes(b"x")
    return pipe.ThreadedMessagePipe(one)


def _both_ends() -> tuple[pipe.MessagePipe, Any]:
    one, other = multiprocessing.Pipe()
    _kept[:] = [*_kept[-20:], one, other]
    return pipe.MessagePipe(one), other


# So that an end is not closed while the other is in use.
_kept: list[Any] = []


def tree() -> trees.TreeWriter:
    block = guarded((2, 2), np.float32)
    return trees.TreeWriter(
        [("a", rows.RowWriter(block, 0)), ("b", None),
         ("c", trees.TreeWriter([(0, rows.RowWriter(block, 1))]))]
    )  # fmt: skip


def a_stepper() -> stepper.Stepper:
    memory = guarded((2, 2), np.float32)
    return stepper.Stepper(
        [Scripted(), Scripted()],
        [[rows.RowWriter(memory, 0), rows.RowWriter(memory, 1)]],
        step_blocks(),
        guarded((2,), np.bool_),
        slot_writer(),
        stepping.SAME_STEP,
        0,
        lambda value: value,
        lambda *message: None,
    )


def ignore(*args: Any) -> None:
    pass


ARRAY_ENVS = np.array([0, 1])
MEMORY_BYTES = 16


class _Memory:
    def __init__(self) -> None:
        self.words = guarded((MEMORY_BYTES,), np.uint8)

    def get_obj(self) -> Any:
        return self.words


def parts() -> list[list[np.ndarray]]:
    return [results(), results()]


# By name: what makes the arguments. Methods get their object first.
GATE = (
    "state", "closed", "forked", "dead", "replaced", "timed_out", "drained", "unwritten",
    "ready_first", "indirect", "is_shut",
)  # fmt: skip


def a_gate() -> fast_step.CallGate:
    return fast_step.CallGate("idle", "stepping")


CALLS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "control.header_size": lambda: (),
    "control.queue_size": lambda: (2,),
    "control.parent_alive": lambda: (1,),
    "control._Mapping.close": lambda: (parent(),),
    "control._Mapping.closed": lambda: (parent(),),
    "control._Mapping.wakes": lambda: (parent(),),
    "control._Mapping.sleeps": lambda: (asked()[1],),
    "control_parent.Parent": lambda: (control_words(), 0, queues()),
    "control_parent.Parent.num_envs": lambda: (parent(),),
    "control_parent.Parent.num_workers": lambda: (parent(),),
    "control_parent.Parent.num_pending": lambda: (parent(),),
    "control_parent.Parent.send_all": lambda: (parent(), 3, False),
    "control_parent.Parent.send": lambda: (parent(), [0, 2], 3, False),
    "control_parent.Parent.pending": lambda: (parent(), 0),
    "control_parent.Parent.queue_pending": lambda: (parent(), 0),
    "control_parent.Parent.ring": lambda: (parent(), 0),
    "control_parent.Parent.wait": lambda: (answered(), 2, 0.001),
    "control_parent.Parent.drain": lambda: (answered(), 2),
    "control_parent.Parent.drain_all": lambda: (answered(),),
    "control_parent.Parent.mark_dead": lambda: (answered(), 0),
    "control_parent.Parent.reset_queue": lambda: (answered(), 0),
    "control_worker.Worker": lambda: (control_words(), 0, HUB, 2),
    "control_worker.Worker.opcode": lambda: (asked()[1],),
    "control_worker.Worker.wait": lambda: (asked()[1], 0.001),
    "control_worker.Worker.take": lambda: (asked()[1],),
    "control_worker.Worker.answer": lambda: (taken(), 0),
    "control_worker.Worker.flush": lambda: (taken(),),
    "_dispatch.Builtin": lambda: (router(), int, ignore),
    "_dispatch.Builtin.__call__": lambda: (builtin(), SPACE, np.zeros((2, 2))),
    "_dispatch.Builtin.kind": lambda: (router().builtins()[0],),
    "_dispatch.Builtin.standard": lambda: (router().builtins()[0],),
    "_dispatch.Builtin.__repr__": lambda: (router().builtins()[0],),
    "_dispatch.Router": lambda: (theirs.iterate, theirs.concatenate),
    "_dispatch.Router.add_builtin": lambda: (router(), int, ignore),
    "_dispatch.Router.set_twin": lambda: (router(), ignore),
    "_dispatch.Router.builtins": lambda: (router(),),
    "_dispatch.Router.has": lambda: (router(), int),
    "_dispatch.Router.find": lambda: (router(), Box),
    "action_block.ActionBlock": lambda: (guarded((2, 16), np.uint8), guarded((2,), np.uint8), (2,)),
    "action_block.ActionBlock.put": lambda: (a_action_block(), np.zeros((2, 2)), ARRAY_ENVS.copy()),
    "action_block.ActionBlock.__call__": lambda: (a_action_block(), 1),
    "fast_step.CallGate": lambda: ("idle", "stepping"),
    **{f"fast_step.CallGate.{name}": lambda: (a_gate(),) for name in GATE},
    "fast_step.StepResults": lambda: (parts(),),
    "fast_step.StepResults.collect": lambda: (fast_step.StepResults(parts()),),
    "fast_step.StepResults.take": lambda: (fast_step.StepResults(parts()),),
    "fast_step.StepResults.step": lambda: (
        fast_step.StepResults(parts(), [np.ones((4, 2)), np.ones((4,))]),
        a_gate(),
        parent(),
        a_action_block().put,
        np.zeros((2, 2)),
        0,
        0.0,
    ),
    "fast_step.StepResults.finish": lambda: (
        fast_step.StepResults(parts(), [np.ones((4, 2)), np.ones((4,))]),
        a_gate(),
        parent(),
        0.0,
    ),
    "fast_step.StepResults.gather": lambda: (fast_step.StepResults(parts()), ARRAY_ENVS.copy()),
    "fast_step.StepResults.has_message": lambda: (fast_step.StepResults(parts()), 3),
    "fast_step.StepResults.messages": lambda: (fast_step.StepResults(parts()),),
    "infos.add_info": lambda: ({}, {"a": 1, "b": {"c": np.zeros(2)}}, 1, 2),
    "infos.gather_infos": lambda: ([(0, {"a": 1}), (1, {"a": 2.5, "b": "x"})], 2),
    "infos.InfoColumn": lambda: (),
    "infos.InfoBatch": lambda: (2,),
    "infos.InfoBatch.infos": lambda: (info_batch(),),
    "infos.InfoBatch.add": lambda: (
        info_batch(),
        {"a": 2.0, "b": np.ones(2), "c": {"d": 2}},
        1,
    ),  # fmt: skip
    "trees.gather_key": lambda: ([{"a": 1}, (2, 3)][:1], "a"),
    "trees.KeyedItems": lambda: (lambda: {"a": [1, 2], "b": "xy"},),
    "trees.KeyedItems.__iter__": lambda: (keyed(),),
    "trees.KeyedItems.__next__": lambda: (keyed(),),
    "_array_spaces.concatenate": lambda: (SPACE, [ROW, ROW], guarded((2, 2), np.float32)),
    "_array_spaces.write": lambda: (SPACE, 1, ROW, _Memory()),
    "_array_spaces.read": lambda: (SPACE, _Memory(), 2),
    "_array_spaces.view": lambda: (SPACE, _Memory(), np.float32, (2,), None),
    "_array_spaces.row_index": lambda: (1, 2),
    "pipe.MessagePipe": lambda: (_both_ends()[1],),
    "pipe.MessagePipe.connection": lambda: (a_pipe(),),
    "pipe.MessagePipe.sent": lambda: (a_pipe(),),
    "pipe.MessagePipe.received": lambda: (a_pipe(),),
    "pipe.MessagePipe.unwritten": lambda: (a_pipe(),),
    "pipe.MessagePipe.keep": lambda: (a_pipe(), b"message"),
    "pipe.MessagePipe.forget": lambda: (a_pipe(),),
    "pipe.MessagePipe.post": lambda: (a_pipe(), b"message"),
    "pipe.MessagePipe.flush": lambda: (a_pipe(),),
    "pipe.MessagePipe.receive": lambda: (a_pipe(),),
    "pipe.MessagePipe.take": lambda: (a_pipe(), dict, {}),
    "pipe.MessagePipe.wait": lambda: (a_pipe(), 0.001),
    "pipe.MessagePipe.close": lambda: (a_pipe(),),
    "pipe.ThreadedMessagePipe": lambda: (_both_ends()[1],),
    "pipe.ThreadedMessagePipe.connection": lambda: (threaded(),),
    "pipe.ThreadedMessagePipe.sent": lambda: (threaded(),),
    "pipe.ThreadedMessagePipe.received": lambda: (threaded(),),
    "pipe.ThreadedMessagePipe.unwritten": lambda: (threaded(),),
    "pipe.ThreadedMessagePipe.keep": lambda: (threaded(), b"message"),
    "pipe.ThreadedMessagePipe.forget": lambda: (threaded(),),
    "pipe.ThreadedMessagePipe.post": lambda: (threaded(), b"message"),
    "pipe.ThreadedMessagePipe.flush": lambda: (threaded(),),
    "pipe.ThreadedMessagePipe.receive": lambda: (threaded(),),
    "pipe.ThreadedMessagePipe.take": lambda: (threaded(), lambda message: {1: message}, {}),
    "pipe.ThreadedMessagePipe.wait": lambda: (threaded(), 0.001),
    "pipe.ThreadedMessagePipe.close": lambda: (threaded(),),
    "pipe.publish": lambda: (parent(), 3, None, [(a_pipe(), b"message")], False),
    "pipe.drain": lambda: (answered(), 2, []),
    "rows.stack_rows": lambda: ([ROW, ROW], guarded((2, 2), np.float32)),
    "rows.write_row": lambda: (guarded((4, 2), np.float32), 1, ROW),
    "rows.gather_rows": lambda: (
        np.zeros((3, 2), np.float32),
        ARRAY_ENVS.copy(),
        guarded((2, 2), np.float32),
    ),  # fmt: skip
    "rows.view_rows": lambda: (guarded((16,), np.uint8), np.float32, (2,), 2),
    "rows.RowWriter": lambda: (guarded((4, 2), np.float32), 1),
    "rows.RowWriter.__call__": lambda: (rows.RowWriter(guarded((4, 2), np.float32), 1), ROW),
    "stepper.Stepper": lambda: (
        [Scripted()],
        [[ignore]],
        stepping.StepBlocks(*[array[:1] for array in results()[:3]]),
        guarded((1,), np.bool_),
        info_schemas.SlotWriter(guarded((1, 64), np.uint8)),
        stepping.NEXT_STEP,
        0,
        ignore,
        ignore,
    ),  # fmt: skip
    "stepper.Stepper.step": lambda: (a_stepper(), 1, ROW),
    "stepper.Stepper.reset": lambda: (a_stepper(), 1),
    "stepper.serve_pass": lambda: (
        asked()[1],
        a_stepper(),
        3,
        a_action_block(),
        {0: ignore},
        ignore,
        ignore,
    ),  # fmt: skip
    "info_schemas.SlotColumn": lambda: (),
    "info_schemas.SlotColumns": lambda: (guarded((2, 64), np.uint8), list(COLUMNS)),
    "info_schemas.SlotColumns.infos": lambda: (
        info_schemas.SlotColumns(guarded((2, 64), np.uint8), list(COLUMNS)),
    ),
    "info_schemas.Field": lambda: (),
    "info_schemas.Field.key": lambda: (info_schemas.schema_of({"a": 1}, 64).fields[0],),
    "info_schemas.Field.dtype": lambda: (info_schemas.schema_of({"a": 1}, 64).fields[0],),
    "info_schemas.Field.shape": lambda: (info_schemas.schema_of({"a": 1}, 64).fields[0],),
    "info_schemas.Field.offset": lambda: (info_schemas.schema_of({"a": 1}, 64).fields[0],),
    "info_schemas.Field.nested": lambda: (info_schemas.schema_of({"a": 1}, 64).fields[0],),
    "info_schemas.Schema": lambda: (),
    "info_schemas.Schema.fields": lambda: (info_schemas.schema_of({"a": 1}, 64),),
    "info_schemas.Schema.signature": lambda: (info_schemas.schema_of({"a": 1}, 64),),
    "info_schemas.schema_of": lambda: ({"a": 1, "b": {"c": np.zeros(2)}}, 64),
    "info_schemas.SlotWriter": lambda: (guarded((2, 64), np.uint8),),
    "info_schemas.SlotWriter.clear": lambda: (slot_writer(), 1),
    "info_schemas.SlotWriter.new_schema": lambda: (slot_writer(),),
    "info_schemas.SlotWriter.put": lambda: (slot_writer(), 1, {"a": 1, "b": {"c": np.zeros(2)}}),
    "info_schemas.same_schema": schemas,
    "stepping.StepBlocks": lambda: tuple(results()[:3]),
    "stepping.StepBlocks.put": lambda: (step_blocks(), 1, 0.5, True, False),
    "stepping.StepBlocks.clear": lambda: (step_blocks(), 1),
    "stepping.step_environments": lambda: (
        [Scripted(), Scripted()],
        [ROW, ROW],
        [None, None],
        step_blocks(),
        guarded((2,), np.bool_),
        stepping.SAME_STEP,
        infos.InfoBatch(2),
        lambda value: value,
    ),  # fmt: skip
    "trees.TreeWriter": lambda: ([("a", None), ("b", tree())],),
    "trees.TreeWriter.__call__": lambda: (tree(), {"a": ROW, "b": 1, "c": (ROW,)}),
}
# It may end this process, as it says; tests/hostile/test_kernel_objects.py calls it.
IMMEDIATE = {"control_worker.Worker.watch_parent"}


def builtin() -> _dispatch.Builtin:
    found = ours.iterate.router.builtins()
    return next(handler for handler in found if handler.kind is Box)


def router() -> _dispatch.Router:
    made = _dispatch.Router(theirs.iterate, theirs.concatenate)
    made.add_builtin(Box, ignore)
    return made


def keyed() -> trees.KeyedItems:
    return trees.KeyedItems(lambda: {"a": [1, 2], "b": "xy"})


def compiled() -> list[str]:
    """The names of all callables and attributes of the extension modules."""
    names = []
    for module in MODULES:
        short = module.__name__.rpartition(".")[2]
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) != module.__name__:
                continue
            if not isinstance(value, type):
                names.append(f"{short}.{name}")
            elif not issubclass(value, BaseException) and "__members__" not in dir(value):
                if name != "_Mapping":
                    names.append(f"{short}.{name}")
                names += [
                    f"{short}.{name}.{member}"
                    for member, what in vars(value).items()
                    if not member.startswith("_")
                    or member in ("__call__", "__next__", "__iter__", "__repr__")
                    if callable(what) or isinstance(what, _ATTRIBUTES)
                ]
    return names


_ATTRIBUTES = (property, types.GetSetDescriptorType, types.MemberDescriptorType)


def find(name: str) -> Any:
    """A function that makes the call of that name with its arguments."""
    module, *path = name.split(".")
    target = {m.__name__.rpartition(".")[2]: m for m in MODULES}[module]
    for part in path:
        found = target
        target = vars(target)[part]
    if isinstance(target, _ATTRIBUTES):
        return lambda self: getattr(self, path[-1])
    if len(path) == 2:
        return lambda self, *args: getattr(found, path[1])(self, *args)
    return target


def forget() -> None:
    """Let go of what calls have kept."""
    _kept.clear()
