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
from gymvec import (
    _actions,
    _blocks,
    _columns,
    _dispatch,
    _doorbell,
    _doorbell_parent,
    _doorbell_worker,
    _infos,
    _items,
    _leaf,
    _pipe,
    _results,
    _rows,
    _serve,
    _slots,
    _steps,
    _trees,
)

MODULES = (
    _actions, _doorbell, _doorbell_parent, _doorbell_worker, _blocks, _columns, _dispatch, _infos, _items, _leaf,
    _pipe, _results, _rows, _serve, _slots, _steps, _trees,
)  # fmt: skip

SPACE = Box(-9, 9, (2,), np.float32)
ROW = np.ones(2, np.float32)
COLUMNS = [("a", 16, np.float64, ()), ("b", 24, np.int8, (3,))]
HUB = _doorbell.header_size()
LANE = _doorbell.queue_size(2)


def control_words() -> np.ndarray:
    """Memory for a parent and two workers of two environments each."""
    return guarded((HUB + 2 * LANE,), np.uint8)


def parent(words: Any = None) -> _doorbell_parent.Parent:
    return _doorbell_parent.Parent(control_words() if words is None else words, 0, queues())


def queues() -> list[tuple[int, int]]:
    return [(HUB, 2), (HUB + LANE, 2)]


def asked() -> tuple[_doorbell_parent.Parent, _doorbell_worker.Worker]:
    """Both sides, after a command to all."""
    words = control_words()
    one = parent(words)
    other = _doorbell_worker.Worker(words, 0, HUB, 2)
    one.send_all(3)
    return one, other


def answered() -> _doorbell_parent.Parent:
    one, other = asked()
    while (env := other.take()) >= 0:
        other.answer(env)
    other.flush()
    return one


def taken() -> _doorbell_worker.Worker:
    other = asked()[1]
    other.take()
    return other


def step_blocks() -> _steps.StepBlocks:
    return _steps.StepBlocks(*results()[:3])


def results() -> list[np.ndarray]:
    return [guarded((2,), np.float64), *(guarded((2,), np.bool_) for _ in range(3))]


def action_block() -> _actions.ActionBlock:
    return _actions.ActionBlock(guarded((2, 16), np.uint8), guarded((2,), np.uint8), (2,))


def slot_writer() -> _slots.SlotWriter:
    writer = _slots.SlotWriter(guarded((2, 64), np.uint8))
    writer.put(0, {"a": 1, "b": {"c": np.zeros(2)}})
    return writer


def schemas() -> tuple[np.ndarray, ...]:
    table = np.zeros((1, _slots.MAX_SCHEMAS + 1), np.int32)
    return np.zeros((2, 64), np.uint8), table, np.zeros(2, np.int32), guarded((2,), np.int32)


def info_batch() -> _infos.InfoBatch:
    batch = _infos.InfoBatch(2)
    batch.add({"a": 1.0, "b": np.zeros(2), "c": {"d": 1}}, 0)
    return batch


def pipe() -> _pipe.MessagePipe:
    box, other = _both_ends()
    other.send_bytes(b"x")
    return box


def threaded() -> _pipe.ThreadedMessagePipe:
    one, other = multiprocessing.Pipe()
    _kept[:] = [*_kept[-20:], one, other]
    other.send_bytes(b"x")
    return _pipe.ThreadedMessagePipe(one)


def _both_ends() -> tuple[_pipe.MessagePipe, Any]:
    one, other = multiprocessing.Pipe()
    _kept[:] = [*_kept[-20:], one, other]
    return _pipe.MessagePipe(one), other


# So that an end is not closed while the other is in use.
_kept: list[Any] = []


def tree() -> _trees.TreeWriter:
    block = guarded((2, 2), np.float32)
    return _trees.TreeWriter(
        [("a", _rows.RowWriter(block, 0)), ("b", None),
         ("c", _trees.TreeWriter([(0, _rows.RowWriter(block, 1))]))]
    )  # fmt: skip


def stepper() -> _serve.Stepper:
    rows = guarded((2, 2), np.float32)
    return _serve.Stepper(
        [Scripted(), Scripted()],
        [[_rows.RowWriter(rows, 0), _rows.RowWriter(rows, 1)]],
        step_blocks(),
        guarded((2,), np.bool_),
        slot_writer(),
        _steps.SAME_STEP,
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
CALLS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "_doorbell.header_size": lambda: (),
    "_doorbell.queue_size": lambda: (2,),
    "_doorbell.parent_alive": lambda: (1,),
    "_doorbell._Mapping.close": lambda: (parent(),),
    "_doorbell._Mapping.closed": lambda: (parent(),),
    "_doorbell._Mapping.wakes": lambda: (parent(),),
    "_doorbell._Mapping.sleeps": lambda: (asked()[1],),
    "_doorbell_parent.Parent": lambda: (control_words(), 0, queues()),
    "_doorbell_parent.Parent.num_envs": lambda: (parent(),),
    "_doorbell_parent.Parent.num_workers": lambda: (parent(),),
    "_doorbell_parent.Parent.num_pending": lambda: (parent(),),
    "_doorbell_parent.Parent.send_all": lambda: (parent(), 3, False),
    "_doorbell_parent.Parent.send": lambda: (parent(), [0, 2], 3, False),
    "_doorbell_parent.Parent.pending": lambda: (parent(), 0),
    "_doorbell_parent.Parent.queue_pending": lambda: (parent(), 0),
    "_doorbell_parent.Parent.ring": lambda: (parent(), 0),
    "_doorbell_parent.Parent.wait": lambda: (answered(), 2, 0.001),
    "_doorbell_parent.Parent.drain": lambda: (answered(), 2),
    "_doorbell_parent.Parent.drain_all": lambda: (answered(),),
    "_doorbell_parent.Parent.mark_dead": lambda: (answered(), 0),
    "_doorbell_parent.Parent.reset_queue": lambda: (answered(), 0),
    "_doorbell_worker.Worker": lambda: (control_words(), 0, HUB, 2),
    "_doorbell_worker.Worker.opcode": lambda: (asked()[1],),
    "_doorbell_worker.Worker.wait": lambda: (asked()[1], 0.001),
    "_doorbell_worker.Worker.take": lambda: (asked()[1],),
    "_doorbell_worker.Worker.answer": lambda: (taken(), 0),
    "_doorbell_worker.Worker.flush": lambda: (taken(),),
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
    "_actions.ActionBlock": lambda: (guarded((2, 16), np.uint8), guarded((2,), np.uint8), (2,)),
    "_actions.ActionBlock.put": lambda: (action_block(), np.zeros((2, 2)), ARRAY_ENVS.copy()),
    "_actions.ActionBlock.__call__": lambda: (action_block(), 1),
    "_results.StepResults": lambda: (parts(),),
    "_results.StepResults.collect": lambda: (_results.StepResults(parts()),),
    "_results.StepResults.sent": lambda: (_results.StepResults(parts()),),
    "_results.StepResults.step": lambda: (
        _results.StepResults(parts(), [np.ones((4, 2)), np.ones((4,))]),
        parent(),
        action_block().put,
        np.zeros((2, 2)),
        0,
        0.0,
    ),
    "_results.StepResults.finish": lambda: (
        _results.StepResults(parts(), [np.ones((4, 2)), np.ones((4,))]),
        parent(),
        0.0,
    ),
    "_results.StepResults.gather": lambda: (_results.StepResults(parts()), ARRAY_ENVS.copy()),
    "_results.StepResults.has_message": lambda: (_results.StepResults(parts()), 3),
    "_results.StepResults.messages": lambda: (_results.StepResults(parts()),),
    "_infos.add_info": lambda: ({}, {"a": 1, "b": {"c": np.zeros(2)}}, 1, 2),
    "_infos.gather_infos": lambda: ([(0, {"a": 1}), (1, {"a": 2.5, "b": "x"})], 2),
    "_infos.Column": lambda: (),
    "_infos.InfoBatch": lambda: (2,),
    "_infos.InfoBatch.infos": lambda: (info_batch(),),
    "_infos.InfoBatch.add": lambda: (
        info_batch(),
        {"a": 2.0, "b": np.ones(2), "c": {"d": 2}},
        1,
    ),  # fmt: skip
    "_items.gather_key": lambda: ([{"a": 1}, (2, 3)][:1], "a"),
    "_items.KeyedItems": lambda: (lambda: {"a": [1, 2], "b": "xy"},),
    "_items.KeyedItems.__iter__": lambda: (keyed(),),
    "_items.KeyedItems.__next__": lambda: (keyed(),),
    "_leaf.concatenate": lambda: (SPACE, [ROW, ROW], guarded((2, 2), np.float32)),
    "_leaf.write": lambda: (SPACE, 1, ROW, _Memory()),
    "_leaf.read": lambda: (SPACE, _Memory(), 2),
    "_leaf.view": lambda: (SPACE, _Memory(), np.float32, (2,), None),
    "_leaf.row_index": lambda: (1, 2),
    "_pipe.MessagePipe": lambda: (_both_ends()[1],),
    "_pipe.MessagePipe.connection": lambda: (pipe(),),
    "_pipe.MessagePipe.sent": lambda: (pipe(),),
    "_pipe.MessagePipe.received": lambda: (pipe(),),
    "_pipe.MessagePipe.unwritten": lambda: (pipe(),),
    "_pipe.MessagePipe.keep": lambda: (pipe(), b"message"),
    "_pipe.MessagePipe.forget": lambda: (pipe(),),
    "_pipe.MessagePipe.post": lambda: (pipe(), b"message"),
    "_pipe.MessagePipe.flush": lambda: (pipe(),),
    "_pipe.MessagePipe.receive": lambda: (pipe(),),
    "_pipe.MessagePipe.take": lambda: (pipe(), dict, {}),
    "_pipe.MessagePipe.wait": lambda: (pipe(), 0.001),
    "_pipe.MessagePipe.close": lambda: (pipe(),),
    "_pipe.ThreadedMessagePipe": lambda: (_both_ends()[1],),
    "_pipe.ThreadedMessagePipe.connection": lambda: (threaded(),),
    "_pipe.ThreadedMessagePipe.sent": lambda: (threaded(),),
    "_pipe.ThreadedMessagePipe.received": lambda: (threaded(),),
    "_pipe.ThreadedMessagePipe.unwritten": lambda: (threaded(),),
    "_pipe.ThreadedMessagePipe.keep": lambda: (threaded(), b"message"),
    "_pipe.ThreadedMessagePipe.forget": lambda: (threaded(),),
    "_pipe.ThreadedMessagePipe.post": lambda: (threaded(), b"message"),
    "_pipe.ThreadedMessagePipe.flush": lambda: (threaded(),),
    "_pipe.ThreadedMessagePipe.receive": lambda: (threaded(),),
    "_pipe.ThreadedMessagePipe.take": lambda: (threaded(), lambda message: {1: message}, {}),
    "_pipe.ThreadedMessagePipe.wait": lambda: (threaded(), 0.001),
    "_pipe.ThreadedMessagePipe.close": lambda: (threaded(),),
    "_pipe.publish": lambda: (parent(), 3, None, [(pipe(), b"message")], False),
    "_pipe.drain": lambda: (answered(), 2, []),
    "_rows.stack_rows": lambda: ([ROW, ROW], guarded((2, 2), np.float32)),
    "_rows.write_row": lambda: (guarded((4, 2), np.float32), 1, ROW),
    "_blocks.gather_rows": lambda: (
        np.zeros((3, 2), np.float32),
        ARRAY_ENVS.copy(),
        guarded((2, 2), np.float32),
    ),  # fmt: skip
    "_blocks.view_rows": lambda: (guarded((16,), np.uint8), np.float32, (2,), 2),
    "_rows.RowWriter": lambda: (guarded((4, 2), np.float32), 1),
    "_rows.RowWriter.__call__": lambda: (_rows.RowWriter(guarded((4, 2), np.float32), 1), ROW),
    "_serve.Stepper": lambda: (
        [Scripted()],
        [[ignore]],
        _steps.StepBlocks(*[array[:1] for array in results()[:3]]),
        guarded((1,), np.bool_),
        _slots.SlotWriter(guarded((1, 64), np.uint8)),
        _steps.NEXT_STEP,
        0,
        ignore,
        ignore,
    ),  # fmt: skip
    "_serve.Stepper.step": lambda: (stepper(), 1, ROW),
    "_serve.Stepper.reset": lambda: (stepper(), 1),
    "_serve.serve_pass": lambda: (
        asked()[1],
        stepper(),
        3,
        action_block(),
        {0: ignore},
        ignore,
        ignore,
    ),  # fmt: skip
    "_columns.Column": lambda: (),
    "_columns.SlotColumns": lambda: (guarded((2, 64), np.uint8), list(COLUMNS)),
    "_columns.SlotColumns.infos": lambda: (
        _columns.SlotColumns(guarded((2, 64), np.uint8), list(COLUMNS)),
    ),
    "_slots.Column": lambda: (),
    "_slots.Column.key": lambda: (_slots.schema_of({"a": 1}, 64).columns[0],),
    "_slots.Column.dtype": lambda: (_slots.schema_of({"a": 1}, 64).columns[0],),
    "_slots.Column.shape": lambda: (_slots.schema_of({"a": 1}, 64).columns[0],),
    "_slots.Column.offset": lambda: (_slots.schema_of({"a": 1}, 64).columns[0],),
    "_slots.Column.nested": lambda: (_slots.schema_of({"a": 1}, 64).columns[0],),
    "_slots.Schema": lambda: (),
    "_slots.Schema.columns": lambda: (_slots.schema_of({"a": 1}, 64),),
    "_slots.Schema.signature": lambda: (_slots.schema_of({"a": 1}, 64),),
    "_slots.schema_of": lambda: ({"a": 1, "b": {"c": np.zeros(2)}}, 64),
    "_slots.SlotWriter": lambda: (guarded((2, 64), np.uint8),),
    "_slots.SlotWriter.clear": lambda: (slot_writer(), 1),
    "_slots.SlotWriter.put": lambda: (slot_writer(), 1, {"a": 1, "b": {"c": np.zeros(2)}}),
    "_slots.same_schema": schemas,
    "_steps.StepBlocks": lambda: tuple(results()[:3]),
    "_steps.StepBlocks.put": lambda: (step_blocks(), 1, 0.5, True, False),
    "_steps.StepBlocks.clear": lambda: (step_blocks(), 1),
    "_steps.step_environments": lambda: (
        [Scripted(), Scripted()],
        [ROW, ROW],
        [None, None],
        step_blocks(),
        guarded((2,), np.bool_),
        _steps.SAME_STEP,
        _infos.InfoBatch(2),
        lambda value: value,
    ),  # fmt: skip
    "_trees.TreeWriter": lambda: ([("a", None), ("b", tree())],),
    "_trees.TreeWriter.__call__": lambda: (tree(), {"a": ROW, "b": 1, "c": (ROW,)}),
}
# It may end this process, as it says; tests/hostile/test_kernel_objects.py calls it.
IMMEDIATE = {"_doorbell_worker.Worker.watch_parent"}


def builtin() -> _dispatch.Builtin:
    found = ours.iterate.router.builtins()
    return next(handler for handler in found if handler.kind is Box)


def router() -> _dispatch.Router:
    made = _dispatch.Router(theirs.iterate, theirs.concatenate)
    made.add_builtin(Box, ignore)
    return made


def keyed() -> _items.KeyedItems:
    return _items.KeyedItems(lambda: {"a": [1, 2], "b": "xy"})


def compiled() -> list[str]:
    """The names of all callables and attributes of the extension modules."""
    names = []
    for module in MODULES:
        short = module.__name__.partition(".")[2]
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
    target = {m.__name__.partition(".")[2]: m for m in MODULES}[module]
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
