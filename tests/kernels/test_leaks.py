"""Reference counts and resident size, error paths included."""

import gc
import multiprocessing as mp
import sys

import gymnasium.vector.utils as theirs
import numpy as np
import psutil
import pytest
import spaces_zoo as zoo
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, OneOf, Text, Tuple

import gymvec.utils as ours
from gymvec.kernels import rows, trees
from gymvec.utils import _array_spaces, _dispatch

CALLS = 100_000
# A leak of one small object a call would be several times this.
ALLOWED = 2 << 20

ROW = np.arange(64, dtype=np.float32)
WIDE = ROW.astype(np.float64)
OUT = np.zeros((300, 64), np.float32)
SMALL = np.zeros((2, 64), np.float32)
SPACE = Box(-99, 99, (64,), np.float32)
MEMORY = mp.Array("f", 2 * 64)
NESTED = Dict({"a": Tuple([Box(-9, 9, (2,)), Discrete(3)]), "b": MultiBinary(2)})
NESTED_ITEM = {"a": (np.zeros(2, np.float32), np.int64(1)), "b": np.zeros(2, np.int8)}
NESTED_OUT = theirs.create_empty_array(NESTED, 2)
NESTED_MEMORY = theirs.create_shared_memory(NESTED, 2)
BATCH = theirs.batch_space(NESTED, 2)
TEXT, TEXT_MEMORY = Text(4), theirs.create_shared_memory(Text(4), 2)
ONE_OF = OneOf([Discrete(3), Text(2)])
ONE_OF_MEMORY = theirs.create_shared_memory(ONE_OF, 2)
MULTI = MultiDiscrete([3, 3])
WRITER = rows.RowWriter(SMALL, 1)
ROUTER = _dispatch.Router(theirs.iterate, theirs.concatenate)


class Breaks:
    """An object that no number can be made of."""

    def __array__(self, dtype=None, copy=None):
        raise ArithmeticError("no array")

    def __index__(self):
        raise ArithmeticError("no index")


BAD = Breaks()


def _failing_generator():
    yield ROW
    raise ArithmeticError("lost")


# What is called, whether it fails, and what share of CALLS is enough for a slow one.
CASES = {
    "stack": (lambda: rows.stack_rows([ROW, ROW], SMALL), False, 1),
    "stack many": (lambda: rows.stack_rows([ROW] * 300, OUT), False, 0.05),
    "stack many narrowed": (lambda: rows.stack_rows([WIDE] * 300, OUT), False, 0.05),
    "stack declined": (lambda: rows.stack_rows([ROW, BAD], SMALL), False, 1),
    "stack many declined": (lambda: rows.stack_rows([WIDE] * 299 + [BAD], OUT), False, 0.05),
    "stack numbers": (lambda: rows.stack_rows([1, 2.5, True], np.zeros(3)), False, 1),
    "write": (lambda: rows.write_row(SMALL, 1, ROW), False, 1),
    "write narrowed": (lambda: rows.write_row(SMALL, 1, WIDE), False, 1),
    "write large narrowed": (
        lambda: rows.write_row(np.empty((1, 999), "f4"), 0, np.zeros(999)),
        False,
        0.5,
    ),
    "write declined": (lambda: rows.write_row(SMALL, 1, BAD), False, 1),
    "write outside": (lambda: rows.write_row(SMALL, 2, ROW), True, 1),
    "write index breaks": (lambda: rows.write_row(SMALL, BAD, ROW), True, 1),
    "gather": (lambda: rows.gather_rows(OUT, np.array([7, 8]), SMALL), False, 1),
    "gather outside": (lambda: rows.gather_rows(OUT, np.array([7, 300]), SMALL), True, 0.1),
    "view": (lambda: rows.view_rows(MEMORY.get_obj(), "f4", (64,), 2), False, 1),
    "view wrong": (lambda: rows.view_rows(MEMORY.get_obj(), "f4", (64,), 3), True, 1),
    "view wrong buffer": (lambda: rows.view_rows(BAD, "f4", (64,), 3), True, 1),
    "gather_key": (lambda: trees.gather_key([{"a": BAD}, {"a": ROW}], "a"), False, 1),
    "gather_key wrong": (lambda: trees.gather_key([{"a": BAD}, {}], "a"), True, 1),
    "keyed items": (
        lambda: list(trees.KeyedItems(lambda: {"a": [ROW, WIDE], "b": "xy"})),
        False,
        0.5,
    ),
    "keyed items wrong": (
        lambda: list(trees.KeyedItems(lambda: {"a": [ROW, WIDE], "b": [BAD]})),
        True,
        0.5,
    ),
    "keyed items fail": (
        lambda: list(trees.KeyedItems(lambda: {"a": BAD, "b": [ROW]})),
        True,
        0.5,
    ),
    "row writer": (lambda: rows.RowWriter(SMALL, 1), False, 1),
    "row writer wrong": (lambda: rows.RowWriter(SMALL, 2), True, 1),
    "row writer call": (lambda: WRITER(WIDE), False, 1),
    "row writer call wrong": (lambda: WRITER([1, 2]), True, 0.5),
    "router": (lambda: ROUTER.find(zoo.CustomBox), False, 1),
    "router default": (lambda: ROUTER.find(int), False, 1),
    "router has": (lambda: ROUTER.has(None), False, 1),
    "row_index": (lambda: _array_spaces.row_index(3, 2), True, 1),
    "concatenate": (lambda: ours.concatenate(SPACE, [ROW, WIDE], SMALL), False, 0.5),
    "concatenate wrong": (lambda: ours.concatenate(SPACE, [ROW, BAD], SMALL), True, 0.2),
    "concatenate cast": (lambda: ours.concatenate(SPACE, [ROW, ROW + 1j], SMALL), True, 0.2),
    "concatenate generator": (
        lambda: ours.concatenate(SPACE, _failing_generator(), SMALL),
        True,
        0.5,
    ),
    "concatenate nested": (
        lambda: ours.concatenate(NESTED, [NESTED_ITEM] * 2, NESTED_OUT),
        False,
        0.2,
    ),
    "concatenate nested wrong": (
        lambda: ours.concatenate(NESTED, [NESTED_ITEM, {}], NESTED_OUT),
        True,
        0.2,
    ),
    "leaf write": (lambda: _array_spaces.write(SPACE, 1, ROW, MEMORY), False, 1),
    "leaf write declined": (
        lambda: _array_spaces.write(SPACE, 1, ROW.tolist(), MEMORY),
        False,
        0.1,
    ),
    "leaf write wrong": (lambda: _array_spaces.write(SPACE, 1, [1], MEMORY), True, 0.1),
    "leaf write breaks": (lambda: _array_spaces.write(SPACE, 1, BAD, MEMORY), True, 0.2),
    "leaf write outside": (lambda: _array_spaces.write(SPACE, 2, ROW, MEMORY), True, 0.5),
    "leaf write no memory": (lambda: _array_spaces.write(SPACE, 1, ROW, BAD), True, 0.2),
    "leaf read": (lambda: _array_spaces.read(SPACE, MEMORY, 2), False, 1),
    "leaf read wrong": (lambda: _array_spaces.read(SPACE, MEMORY, 3), True, 0.5),
    "leaf concatenate": (lambda: _array_spaces.concatenate(SPACE, (ROW, ROW), SMALL), False, 1),
    "leaf view": (lambda: _array_spaces.view(TEXT, TEXT_MEMORY, np.int32, (4,), None), False, 0.5),
    "write nested": (
        lambda: ours.write_to_shared_memory(NESTED, 1, NESTED_ITEM, NESTED_MEMORY),
        False,
        0.2,
    ),
    "write nested wrong": (
        lambda: ours.write_to_shared_memory(NESTED, 9, {}, NESTED_MEMORY),
        True,
        0.1,
    ),
    "read nested": (lambda: ours.read_from_shared_memory(NESTED, NESTED_MEMORY, 2), False, 0.2),
    "write text": (lambda: ours.write_to_shared_memory(TEXT, 1, "ab", TEXT_MEMORY), False, 0.05),
    "write text wrong": (
        lambda: ours.write_to_shared_memory(TEXT, 1, "é", TEXT_MEMORY),
        True,
        0.05,
    ),
    "read text": (lambda: ours.read_from_shared_memory(TEXT, TEXT_MEMORY, 2), False, 0.05),
    "write one of": (
        lambda: ours.write_to_shared_memory(ONE_OF, 1, (0, 2), ONE_OF_MEMORY),
        False,
        0.2,
    ),
    "write one of wrong": (
        lambda: ours.write_to_shared_memory(ONE_OF, 1, (2, 2), ONE_OF_MEMORY),
        True,
        0.2,
    ),
    "read one of": (lambda: ours.read_from_shared_memory(ONE_OF, ONE_OF_MEMORY, 2), False, 0.05),
    "iterate": (lambda: list(ours.iterate(BATCH, NESTED_OUT)), False, 0.1),
    "iterate wrong": (lambda: ours.iterate(SPACE, 3), True, 0.5),
    "create_empty_array": (lambda: ours.create_empty_array(NESTED, 2), False, 0.2),
    "batch_space": (lambda: ours.batch_space(MULTI, 2), False, 0.01),
    "batch_differing_spaces": (lambda: ours.batch_differing_spaces([MULTI] * 2), False, 0.01),
    "create_shared_memory": (lambda: ours.create_shared_memory(SPACE, 2), False, 0.002),
    "not a space": (lambda: ours.concatenate(None, [ROW], SMALL), True, 0.5),
}
WATCHED = (
    ROW,
    WIDE,
    OUT,
    SMALL,
    BAD,
    SPACE,
    MEMORY,
    MEMORY.get_obj(),
    TEXT,
    NESTED,
    NESTED_ITEM,
    NESTED_ITEM["b"],
    NESTED_OUT,
    NESTED_OUT["b"],
    ONE_OF,
    SPACE.dtype,
    None,
    "a",
)


def repeat(function, fails, times):
    for _ in range(times):
        try:
            function()
        except Exception:
            assert fails
        else:
            assert not fails


def counts():
    gc.collect()
    return [sys.getrefcount(watched) for watched in WATCHED]


@pytest.mark.leaks
@pytest.mark.parametrize("name", CASES)
def test_leaks(name):
    function, fails, share = CASES[name]
    times = int(CALLS * share)
    process = psutil.Process()
    repeat(function, fails, max(times // 50, 50))
    size = process.memory_info().rss
    # Caches and free lists fill up and are full then; a leak is there each time.
    for _ in range(3):
        before, blocks = counts(), sys.getallocatedblocks()
        repeat(function, fails, times)
        after = counts()
        if sys.getallocatedblocks() - blocks < min(times / 4, 500):
            break
    # A few references come and go with caches; a leak leaves one a call.
    for watched, one, other in zip(WATCHED, before, after, strict=True):
        assert abs(other - one) < min(times / 4, 50), f"{type(watched)}: {one} -> {other}"
    assert sys.getallocatedblocks() - blocks < min(times / 4, 500)
    assert process.memory_info().rss - size < ALLOWED


def test_every_compiled_function_has_a_case():
    used = {name for case, *_ in CASES.values() for name in case.__code__.co_names}
    used |= {"RowWriter", "Router", "RowSizeError"}
    for module in (rows, _array_spaces):
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) == module.__name__ and not name.startswith("_"):
                assert name in used, name
    for name in ours.__all__[:8]:
        assert name in used, name


@pytest.mark.parametrize("name", zoo.SHAREABLE)
def test_shared_memory_is_given_back(name):
    space = zoo.make(name)
    values = zoo.samples(space, 2)

    def use():
        memory = ours.create_shared_memory(space, 2)
        for index, value in enumerate(values):
            ours.write_to_shared_memory(space, index, value, memory)
        return ours.read_from_shared_memory(space, memory, 2)

    process = psutil.Process()
    for _ in range(5):
        use()
    gc.collect()
    before = process.num_fds() if hasattr(process, "num_fds") else process.num_handles()
    for _ in range(30):
        use()
    gc.collect()
    after = process.num_fds() if hasattr(process, "num_fds") else process.num_handles()
    assert after - before <= 3
