"""Shared memory in one process: create, write and read, right and wrong."""

import multiprocessing as mp

import gymnasium.vector.utils as theirs
import numpy as np
import pytest
import spaces_zoo as zoo
from equality import assert_same, assert_same_outcome, leaves, outcome
from gymnasium.error import CustomSpaceError
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, OneOf, Text, Tuple
from names import name_of

import gymvec.utils as ours

# Gymnasium cannot read alternatives that are Dict or Tuple.
UNREADABLE = {"one of dict", "one of tuple", "one of deep"}
READABLE = [name for name in zoo.SHAREABLE if name not in UNREADABLE]


def arrays(memory):
    """The ctypes arrays of a shared memory, in order."""
    if isinstance(memory, dict):
        memory = tuple(memory.values())
    if isinstance(memory, tuple):
        return [array for part in memory for array in arrays(part)]
    return [memory.get_obj()]


def contents(memory, name=""):
    """The bytes of a memory, without the padding of x87 numbers, which may hold anything."""
    found = [bytes(array) for array in arrays(memory)]
    if "longdouble" in name and np.finfo(np.longdouble).nmant == 63:
        size = np.dtype(np.longdouble).itemsize
        found = [np.frombuffer(raw, np.uint8).reshape(-1, size)[:, :10].tobytes() for raw in found]
    return found


def written(package, space, values):
    memory = package.create_shared_memory(space, len(values))
    for index, value in enumerate(values):
        package.write_to_shared_memory(space, index, value, memory)
    return memory


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", zoo.SHAREABLE)
def test_create(name, n):
    space = zoo.make(name)
    actual, expected = ours.create_shared_memory(space, n), theirs.create_shared_memory(space, n)
    assert type(actual) is type(expected)
    assert contents(actual) == contents(expected)
    assert [type(array)._type_ for array in arrays(actual)] == [
        type(array)._type_ for array in arrays(expected)
    ]
    if isinstance(expected, dict):
        assert list(actual) == list(expected)


@pytest.mark.parametrize("method", mp.get_all_start_methods())
def test_create_in_a_context(method):
    context = mp.get_context(method)
    memory = ours.create_shared_memory(Discrete(3), n=2, ctx=context)
    expected = theirs.create_shared_memory(Discrete(3), n=2, ctx=context)
    assert type(memory) is type(expected)
    assert type(memory.get_lock()) is type(expected.get_lock())
    default = ours.create_shared_memory(Discrete(3))
    assert len(default) == 1


@pytest.mark.parametrize("name", READABLE)
def test_write_and_read(name):
    space = zoo.make(name)
    values = zoo.samples(space, 4)
    actual, expected = written(ours, space, values), written(theirs, space, values)
    assert contents(actual, name) == contents(expected, name)
    assert_same(
        ours.read_from_shared_memory(space, actual, 4),
        theirs.read_from_shared_memory(space, expected, 4),
    )
    # Each package reads what the other wrote.
    assert_same(
        ours.read_from_shared_memory(space, expected, 4),
        theirs.read_from_shared_memory(space, actual, 4),
    )


@pytest.mark.parametrize("name", zoo.SHAREABLE)
def test_write_over_what_was_there(name):
    space = zoo.make(name)
    memory, expected = (
        written(ours, space, zoo.samples(space, 3)),
        written(theirs, space, zoo.samples(space, 3)),
    )
    for index, value in (
        (1, zoo.samples(space, 4, seed=9)[3]),
        (np.int8(2), zoo.samples(space, 1, seed=5)[0]),
    ):
        ours.write_to_shared_memory(space, index, value, memory)
        theirs.write_to_shared_memory(space, int(index), value, expected)
        assert contents(memory, name) == contents(expected, name)


@pytest.mark.parametrize("n", [255, 256, 1024])
@pytest.mark.parametrize(
    "name", ["box float32", "discrete", "multi binary", "text", "dict", "one of"]
)
def test_many(name, n):
    space = zoo.make(name)
    values = zoo.samples(space, n)
    assert_same(
        ours.read_from_shared_memory(space, written(ours, space, values), n),
        theirs.read_from_shared_memory(space, written(theirs, space, values), n),
    )


@pytest.mark.parametrize("name", READABLE)
def test_reading_memory_that_nobody_wrote(name):
    space = zoo.make(name)
    assert_same(
        ours.read_from_shared_memory(space, ours.create_shared_memory(space, 3), 3),
        theirs.read_from_shared_memory(space, theirs.create_shared_memory(space, 3), 3),
    )


@pytest.mark.parametrize(
    "name", ["box float32", "box >f4", "box float16", "discrete", "dict", "tuple nested"]
)
def test_what_is_read_are_views(name):
    space = zoo.make(name)
    memory = ours.create_shared_memory(space, 3)
    batch = ours.read_from_shared_memory(space, memory, 3)
    again = ours.read_from_shared_memory(space, memory, 3)
    assert leaves(batch)
    for leaf, other in zip(leaves(batch), leaves(again), strict=True):
        assert leaf.flags.writeable and np.shares_memory(leaf, other)
        assert not leaf.any()
    value = zoo.samples(space, 2, seed=8)[1]
    ours.write_to_shared_memory(space, 1, value, memory)
    rows = theirs.concatenate(space, [value], theirs.create_empty_array(space, 1))
    for leaf, row in zip(leaves(batch), leaves(rows), strict=True):
        assert_same(leaf[1:2].copy(), row)
        leaf[0] = leaf[1]
    assert_same(leaves(again)[0][0:1].copy(), leaves(rows)[0])


def test_a_view_keeps_its_memory_alive():
    space = Box(0, 9, (4096,), np.int64)
    view = ours.read_from_shared_memory(space, written(ours, space, [np.arange(4096)]), 1)
    others = [ours.create_shared_memory(space, 1) for _ in range(8)]
    for other in others:
        ours.write_to_shared_memory(space, 0, np.ones(4096, np.int64), other)
    assert view[0].tolist() == list(range(4096))


EXTREMES = {
    **{d: [np.iinfo(d).min, np.iinfo(d).max] for d in zoo.INTEGERS},
    **{d: ["nan", "inf", "-inf", "-0.0"] for d in zoo.FLOATS},
    ">i8": [-(2**63), 2**63 - 1],
    "<u4": [0, 2**32 - 1],
    "bool": [0, 1],
    **{d: ["nan", "inf", "-0.0"] for d in (">f2", ">f4", "<f4", ">f8")},
}


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3)], ids=name_of)
@pytest.mark.parametrize("dtype", EXTREMES)
def test_every_dtype_at_its_limits(dtype, shape):
    space = Box(0, 1, shape, dtype)
    numbers = [np.array(number).astype(dtype) for number in EXTREMES[dtype]]
    if np.dtype(dtype).kind == "f":
        info = np.finfo(dtype)
        numbers += [np.array(n, dtype) for n in (info.max, info.min, info.tiny, info.tiny / 4)]
    values = [np.full(shape, number, dtype) for number in numbers]
    memory, expected = written(ours, space, values), written(theirs, space, values)
    assert contents(memory) == contents(expected)
    assert_same(
        ours.read_from_shared_memory(space, memory, len(values)),
        np.array(values, dtype),
    )


def _reads(space, values):
    return ours.read_from_shared_memory(space, written(ours, space, values), len(values))


class TestText:
    """Text by hand: the codes are the index of each character."""

    def test_lengths_up_to_the_longest(self):
        assert _reads(Text(3), ["a", "ab", "abc"]) == ("a", "ab", "abc")
        assert _reads(Text(3, min_length=0), ["", "abc", ""]) == ("", "abc", "")
        assert _reads(Text(0, min_length=0), ["", ""]) == ("", "")
        assert _reads(Text(1), ["z"]) == ("z",)

    def test_other_characters(self):
        assert _reads(Text(6, charset=zoo.ASTRAL), ["😀a", "𝒳€é😀𝒳€"]) == ("😀a", "𝒳€é😀𝒳€")
        assert _reads(Text(4, charset="\0ab"), ["\0", "a\0", "b\0\0a"]) == ("\0", "a\0", "b\0\0a")
        assert _reads(Text(4, charset="\ud800ab "), ["\ud800a", " "]) == ("\ud800a", " ")

    def test_codes(self):
        space = Text(4, charset="cab")
        memory = written(ours, space, ["abc"])
        assert memory[:] == [space.character_list.index(c) for c in "abc"] + [3]

    def test_codes_of_a_set(self):
        assert written(ours, Text(4, charset={"z", "ä", "b"}), ["zbä"])[:] == [1, 0, 2, 3]

    @pytest.mark.parametrize(
        "value, error",
        [
            ("abx", ValueError),
            ("abca", ValueError),
            (b"ab", TypeError),
            (3, TypeError),
            (None, TypeError),
            (["a"], TypeError),
            (np.zeros(3), TypeError),
        ],
        ids=name_of,
    )
    def test_errors_leave_the_row(self, value, error):
        space = Text(3, charset="abc")
        memory = written(ours, space, ["abc", "cb"])
        before = contents(memory)
        with pytest.raises(error) as caught:
            ours.write_to_shared_memory(space, 1, value, memory)
        assert contents(memory) == before
        assert repr(value) in str(caught.value)
        assert "Text(" in str(caught.value)

    def test_a_subclass_of_str(self):
        assert _reads(Text(3), [np.str_("ab")]) == ("ab",)


class TestOneOf:
    """OneOf by hand: only the chosen alternative is written."""

    @pytest.mark.parametrize("name", [n for n in zoo.SHAREABLE if n.startswith("one of")])
    def test_round_trip(self, name):
        space = zoo.make(name)
        values = zoo.samples(space, 6)
        if isinstance(space.spaces[0], OneOf):
            values = [
                (np.int64(0), (np.int64(i % 2), zoo.samples(space.spaces[0].spaces[i % 2], 1)[0]))
                for i in range(6)
            ]
        assert_same(_reads(space, values), tuple(values))

    def test_nothing_else_is_written(self):
        space = OneOf([Discrete(5), Dict({"a": Box(0, 9, (2,), np.int8)}), Text(2, charset="ab")])
        memory = ours.create_shared_memory(space, 2)
        ours.write_to_shared_memory(space, 1, (1, {"a": np.array([7, 8], np.int8)}), memory)
        assert memory[0][:] == [0, 1] and memory[1][:] == [0, 0] and memory[3][:] == [0] * 4
        assert memory[2]["a"][:] == [0, 0, 7, 8]
        ours.write_to_shared_memory(space, 1, (0, 4), memory)
        assert memory[0][:] == [0, 0] and memory[1][:] == [0, 4]
        assert memory[2]["a"][:] == [0, 0, 7, 8]

    @pytest.mark.parametrize(
        "value, error",
        [
            ((2, 0), ValueError),
            ((-2, 0), ValueError),
            ((-1, np.ones(2)), ValueError),
            ((10**30, 0), ValueError),
            ((0.0, 0), TypeError),
            (("a", 0), TypeError),
            ((None, 0), TypeError),
            ((1, [1.0]), ValueError),
            ((1, [1.0, 2.0, 3.0]), ValueError),
            ((0,), ValueError),
            ((0, 1, 2), ValueError),
            (3, TypeError),
            (None, TypeError),
            ((0, "a"), ValueError),
        ],
        ids=name_of,
    )
    def test_errors_leave_everything(self, value, error):
        space = OneOf([Discrete(5), Box(0, 9, (2,))])
        memory = written(ours, space, [(0, 3), (1, np.ones(2, np.float32))])
        before = contents(memory)
        for index in (0, 1):
            with pytest.raises(error):
                ours.write_to_shared_memory(space, index, value, memory)
            assert contents(memory) == before

    @pytest.mark.parametrize("kind", [int, np.int8, np.uint64, bool, np.array], ids=name_of)
    def test_index_types(self, kind):
        space = OneOf([Discrete(5), Discrete(7)])
        assert_same(_reads(space, [(kind(1), 6)]), ((np.int64(1), np.int64(6)),))


@pytest.mark.parametrize("name", [*zoo.GRAPHS, *zoo.SEQUENCES, "tuple dynamic", "dict dynamic"])
def test_spaces_of_no_fixed_size(name):
    space = zoo.make(name)
    expected = outcome(theirs.create_shared_memory, space, 2)
    assert isinstance(expected.error, TypeError)
    assert "disable `shared_memory`" in str(expected.error)
    assert_same_outcome(outcome(ours.create_shared_memory, space, 2), expected)


@pytest.mark.parametrize("name", [*zoo.GRAPHS, *zoo.SEQUENCES, "custom"])
def test_spaces_without_a_handler(name):
    space = zoo.make(name)
    memory = ours.create_shared_memory(Discrete(2), 1)
    for function, arguments in (
        ("write_to_shared_memory", (0, 1, memory)),
        ("read_from_shared_memory", (memory,)),
    ):
        expected = outcome(getattr(theirs, function), space, *arguments)
        assert isinstance(expected.error, CustomSpaceError)
        assert_same_outcome(outcome(getattr(ours, function), space, *arguments), expected)


@pytest.mark.parametrize("name", ["custom", "tuple custom", "dict custom"])
def test_creating_for_a_custom_space(name):
    expected = outcome(theirs.create_shared_memory, zoo.make(name))
    assert isinstance(expected.error, CustomSpaceError)
    assert_same_outcome(outcome(ours.create_shared_memory, zoo.make(name)), expected)


@pytest.mark.parametrize("space", [None, 3, "box", Box, np.zeros(2)], ids=name_of)
@pytest.mark.parametrize(
    "function, arguments",
    [
        ("create_shared_memory", ()),
        ("read_from_shared_memory", (None,)),
        ("write_to_shared_memory", (0, 1, None)),
    ],
)
def test_not_a_space(space, function, arguments):
    expected = outcome(getattr(theirs, function), space, *arguments)
    assert type(expected.error) is TypeError
    assert_same_outcome(outcome(getattr(ours, function), space, *arguments), expected)


def test_keywords():
    for space in (
        Discrete(3),
        MultiBinary(2),
        MultiDiscrete([2, 2]),
        Tuple([Discrete(2)]),
        Text(2),
    ):
        memory = ours.create_shared_memory(space, n=1, ctx=mp)
        value = zoo.samples(space, 1)[0]
        assert (
            ours.write_to_shared_memory(space, index=0, value=value, shared_memory=memory) is None
        )
        ours.read_from_shared_memory(space, shared_memory=memory, n=1)
