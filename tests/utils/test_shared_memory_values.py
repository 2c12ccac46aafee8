"""Writing to shared memory what does not fit: other values, indices and memories."""

import ctypes
import multiprocessing as mp

import gymnasium.vector.utils as theirs
import numpy as np
import pytest
import spaces_zoo as zoo
from equality import assert_same, assert_same_outcome, outcome
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, OneOf, Text, Tuple
from names import name_of
from utils.test_concatenate import ITEMS, NUMBERS, SPACES, _scalar_spaces
from utils.test_shared_memory import arrays, contents

import gymvec.utils as ours

ROW = np.arange(6).reshape(2, 3) % 4


def shape_of(value, dtype):
    """The shape that NumPy sees; None where it sees no array at all."""
    return getattr(outcome(np.asarray, value, dtype).result, "shape", None)


def assert_written_the_same(space, value, count):
    """Write one value with both packages, over a pattern, and compare all of it."""
    results = []
    for package in (ours, theirs):
        memory = package.create_shared_memory(space, 3)
        ctypes.memset(memory.get_obj(), 0b101, ctypes.sizeof(memory.get_obj()))
        before = contents(memory)
        results.append((outcome(package.write_to_shared_memory, space, 1, value, memory), memory))
    (actual, memory), (expected, reference) = results
    shape = shape_of(value, space.dtype)
    if shape is not None and np.prod(shape) != count:
        # Gymnasium repeats one number for a whole row.
        assert isinstance(actual.error, ValueError)
        assert str(space.shape) in str(actual.error)
        assert str(shape) in str(actual.error)
        assert contents(memory) == before
    else:
        assert_same_outcome(actual, expected)
        # Not as bytes: the padding of a longdouble is anything.
        assert_same(
            ours.read_from_shared_memory(space, memory, 3),
            ours.read_from_shared_memory(space, reference, 3),
        )


@pytest.mark.parametrize("kind", ITEMS)
@pytest.mark.parametrize("name", SPACES)
def test_kinds_of_values(name, kind):
    if kind == "memoryview" and name in ("f2", ">f4", "g"):
        pytest.skip("not a format that memoryview reads")
    space = SPACES[name]
    assert_written_the_same(space, ITEMS[kind](ROW.astype(space.dtype)), 6)


@pytest.mark.parametrize(
    "name, space", list(_scalar_spaces()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_numbers(name, space):
    for number in NUMBERS:
        assert_written_the_same(space, number, 1)


@pytest.mark.parametrize("name", ["box one", "multi discrete one", "box bool", "box empty"])
def test_numbers_for_a_row(name):
    space = zoo.make(name)
    for number in NUMBERS:
        assert_written_the_same(space, number, int(np.prod(space.shape)))


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(6),
        np.zeros((3, 2)),
        np.zeros((1, 2, 3, 1)),
        [[1, 2, 3], [4, 5, 6]],
        range(6),
        "abcdef",
        [1, "2", 3, 4, 5, 6],
        [[1, 2], [3]],
        np.zeros(5),
        np.zeros(7),
        np.zeros((0,)),
        [],
        [1.0],
        3.0,
        True,
        np.float32(3),
        "3",
        np.zeros((2, 3, 2)),
        np.full((2, 3), 1e300),
        np.full((2, 3), -7.9),
        np.full((2, 3), np.nan),
        np.full((2, 3), 2**40),
        [[10**30] * 3] * 2,
        {},
        {1, 2},
        object(),
        b"abcdef",
        np.zeros((2, 3), "M8[s]"),
        np.zeros((2, 3), "S1"),
        np.zeros((2, 3), [("a", "i4")]),
    ],
    ids=name_of,
)
@pytest.mark.parametrize("name", SPACES)
def test_odd_values(name, value):
    assert_written_the_same(SPACES[name], value, 6)


def test_a_row_of_the_memory_itself():
    space = Box(0, 9, (3,), np.int64)
    memory = ours.create_shared_memory(space, 3)
    view = ours.read_from_shared_memory(space, memory, 3)
    view[...] = np.arange(9).reshape(3, 3)
    ours.write_to_shared_memory(space, 0, view[2], memory)
    ours.write_to_shared_memory(space, 1, view.reshape(-1)[4:7], memory)
    assert memory[:] == [6, 7, 8, 4, 5, 6, 6, 7, 8]


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "uint64", "bool", ">f4"]
)
def test_errstate(dtype):
    space, value = Box(0, 1, (2,), dtype), np.array([1e300, 1e-300])
    with np.errstate(all="raise"):
        assert_written_the_same(space, value, 2)
    with np.errstate(all="ignore"):
        assert_written_the_same(space, value, 2)


class Index:
    """An object with ``__index__``."""

    def __init__(self, index):
        self.index = index

    def __index__(self):
        return self.index


# One space a kind, and a value of it.
VALUES = {
    "box": (Box(0, 9, (2,)), np.ones(2, np.float32)),
    "box scalar": (Box(0, 9, ()), np.float32(1)),
    "box >f4": (Box(0, 9, (2,), ">f4"), np.ones(2, ">f4")),
    "discrete": (Discrete(5), 3),
    "multi discrete": (MultiDiscrete([3, 3]), np.ones(2, np.int64)),
    "multi binary": (MultiBinary(2), np.ones(2, np.int8)),
    "text": (Text(3), "abc"),
    "tuple": (Tuple([Discrete(5), Text(2)]), (3, "ab")),
    "dict": (Dict({"a": Discrete(5), "b": Box(0, 9, (2,))}), {"a": 3, "b": np.ones(2)}),
    "one of": (OneOf([Discrete(5), Text(2)]), (1, "ab")),
    "nested": (Dict({"a": Tuple([Dict({"b": Discrete(5)})])}), {"a": ({"b": 3},)}),
}
OUTSIDE = [
    3,
    4,
    -1,
    -3,
    2**31,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    10**30,
    -(10**30),
    np.int8(-1),
    np.uint8(255),
    np.uint64(2**64 - 1),
    Index(3),
    Index(-1),
    Index(10**30),
    np.array(3),
]
NO_INDEX = [1.0, np.float64(1), "1", None, [1], np.array([1, 2]), 1j, np.datetime64(1, "s")]


@pytest.mark.parametrize("name", VALUES)
def test_any_integer_is_an_index(name):
    space, value = VALUES[name]
    integers = [1, True, Index(1), np.array(1), *(np.dtype(d).type(1) for d in zoo.INTEGERS)]
    expected = theirs.create_shared_memory(space, 3)
    theirs.write_to_shared_memory(space, 1, value, expected)
    for index in integers:
        memory = ours.create_shared_memory(space, 3)
        ours.write_to_shared_memory(space, index, value, memory)
        assert contents(memory) == contents(expected), repr(index)


@pytest.mark.parametrize("name", VALUES)
def test_an_index_outside(name):
    space, value = VALUES[name]
    memory = ours.create_shared_memory(space, 3)
    before = contents(memory)
    for index in OUTSIDE:
        for anything in (value, None, "x", [1, 2, 3], {}, (0, 0), 7.5):
            with pytest.raises(IndexError):
                ours.write_to_shared_memory(space, index, anything, memory)
    assert contents(memory) == before


@pytest.mark.parametrize("name", VALUES)
def test_what_is_no_index(name):
    space, value = VALUES[name]
    memory = ours.create_shared_memory(space, 3)
    before = contents(memory)
    for index in NO_INDEX:
        with pytest.raises(TypeError):
            ours.write_to_shared_memory(space, index, value, memory)
    assert contents(memory) == before


def test_an_index_into_rows_without_bytes():
    for space, value in ((Box(0, 9, (0,)), np.zeros(0)), (Text(0, min_length=0), "")):
        memory = ours.create_shared_memory(space, 3)
        ours.write_to_shared_memory(space, 2, value, memory)
        for index in (-1, -(10**30), np.int8(-1)):
            with pytest.raises(IndexError):
                ours.write_to_shared_memory(space, index, value, memory)
        with pytest.raises(TypeError):
            ours.write_to_shared_memory(space, 1.0, value, memory)


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("n", [0, 1, 2, 4, 100, -1])
def test_reading_another_number_of_rows(name, n):
    space, value = VALUES[name]
    memory = ours.create_shared_memory(space, 3)
    with pytest.raises(ValueError):
        ours.read_from_shared_memory(space, memory, n)


@pytest.mark.parametrize("name", VALUES)
def test_memory_of_no_rows(name):
    space, value = VALUES[name]
    memory = ours.create_shared_memory(space, 0)
    with pytest.raises((IndexError, ValueError)):
        ours.write_to_shared_memory(space, 0, value, memory)


def _odd_memories():
    yield from (
        None,
        3,
        "memory",
        b"memory",
        object(),
        [],
        (),
        {},
        {"x": 1},
        np.zeros(64, np.uint8),
    )
    yield mp.RawArray(ctypes.c_int64, 12)
    yield mp.Lock()
    # Not a whole number of rows of any space above.
    yield mp.Array(ctypes.c_uint8, 1)
    yield mp.Array(ctypes.c_uint8, 37)


@pytest.mark.parametrize("name", VALUES)
def test_memory_of_another_kind(name):
    space, value = VALUES[name]
    for memory in _odd_memories():
        if name == "multi binary" and isinstance(memory, np.ndarray):
            continue
        with pytest.raises(ValueError):
            ours.read_from_shared_memory(space, memory, 3)
        with pytest.raises((ValueError, IndexError)):
            ours.write_to_shared_memory(space, 1, value, memory)
    for other in VALUES:
        memory = ours.create_shared_memory(VALUES[other][0], 3)
        before = contents(memory)
        one, another = contents(ours.create_shared_memory(space, 3)), before
        if [len(part) for part in one] == [len(part) for part in another]:
            continue
        with pytest.raises(ValueError):
            ours.read_from_shared_memory(space, memory, 3)
        assert contents(memory) == before


@pytest.mark.parametrize(
    "space", [Tuple([Discrete(2), Discrete(2)]), OneOf([Discrete(2), Discrete(2)])], ids=name_of
)
def test_a_tuple_of_memories_of_another_length(space):
    for memory in (ours.create_shared_memory(Tuple([Discrete(2)] * n), 2) for n in (0, 1, 4)):
        with pytest.raises(ValueError):
            ours.read_from_shared_memory(space, memory, 2)
        with pytest.raises(ValueError):
            ours.write_to_shared_memory(space, 0, (0, 0), memory)


@pytest.mark.parametrize(
    "value", [(1,), (1, 2, 3), (), 5, None, [1, 2], "ab", {"a": 1}], ids=name_of
)
def test_odd_values_of_a_tuple(value):
    space = Tuple([Discrete(5), Discrete(5)])
    memory, reference = ours.create_shared_memory(space, 2), theirs.create_shared_memory(space, 2)
    assert_same_outcome(
        outcome(ours.write_to_shared_memory, space, 1, value, memory),
        outcome(theirs.write_to_shared_memory, space, 1, value, reference),
    )
    assert contents(memory) == contents(reference)


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1},
        {"b": 1},
        {},
        {"a": 1, "b": 2, "c": 3},
        5,
        None,
        [1, 2],
        (1, 2),
        {"b": 2, "a": 1},
        {"a": 1, "b": "x"},
    ],
    ids=name_of,
)
def test_odd_values_of_a_dict(value):
    space = Dict({"a": Discrete(5), "b": Discrete(5)})
    memory, reference = ours.create_shared_memory(space, 2), theirs.create_shared_memory(space, 2)
    assert_same_outcome(
        outcome(ours.write_to_shared_memory, space, 1, value, memory),
        outcome(theirs.write_to_shared_memory, space, 1, value, reference),
    )
    assert contents(memory) == contents(reference)


PAIR = Box(0, 9, (2,), np.uint8)
WRONG_SIZE = (ValueError, r"expected one row of shape \(2,\), got a value of shape \(\)")


@pytest.mark.parametrize(
    "space, value, error, written",
    [
        # Gymnasium writes a single number to the whole row, so its error is the second one.
        (Dict(a=PAIR, b=PAIR), {"a": 5}, WRONG_SIZE, [[1, 1], [1, 1]]),
        (Dict(a=PAIR, b=PAIR), {"b": 5}, (KeyError, "'a'"), [[1, 1], [1, 1]]),
        (Dict(a=PAIR, b=PAIR, c=PAIR), {"a": [2, 3], "b": 5}, WRONG_SIZE, [[2, 3], [1, 1], [1, 1]]),
        (Dict(a=PAIR, b=PAIR, c=PAIR), {"a": [2, 3], "c": 5}, (KeyError, "'b'"),
         [[2, 3], [1, 1], [1, 1]]),
        (Tuple([PAIR, Tuple([PAIR])]), (5, 7), WRONG_SIZE, [[1, 1], [1, 1]]),
        (Tuple([Tuple([PAIR]), PAIR]), (7, 5), (TypeError, "'int' object is not iterable"),
         [[1, 1], [1, 1]]),
        (Tuple([PAIR, PAIR]), (5,), WRONG_SIZE, [[1, 1], [1, 1]]),
        (Tuple([PAIR, PAIR]), ([2, 3],), (ValueError, "longer than argument 1"), [[2, 3], [1, 1]]),
    ],
    ids=name_of,
)  # fmt: skip
def test_of_two_faults_the_earlier_part_raises(space, value, error, written):
    """The parts before it are written, it and those after it keep what they had."""
    memory = ours.create_shared_memory(space, 2)
    for array in arrays(memory):
        ctypes.memset(array, 1, ctypes.sizeof(array))
    with pytest.raises(error[0], match=error[1]):
        ours.write_to_shared_memory(space, 1, value, memory)
    assert [list(array) for array in arrays(memory)] == [[1, 1, *row] for row in written]
    with pytest.raises(IndexError):
        ours.write_to_shared_memory(space, 2, value, memory)


@pytest.mark.parametrize("n", [3.0, "3", None, (3,), np.float64(3)], ids=name_of)
def test_reading_a_count_that_is_no_integer(n):
    space = Box(0, 9, (2,))
    memory = ours.create_shared_memory(space, 3)
    with pytest.raises(TypeError):
        theirs.read_from_shared_memory(space, memory, n)
    with pytest.raises(TypeError):
        ours.read_from_shared_memory(space, memory, n)
