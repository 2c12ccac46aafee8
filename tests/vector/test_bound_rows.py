"""Functions bound to the leaves of a space: writers, readers, stackers; and copies."""

from collections import OrderedDict, namedtuple
from copy import deepcopy

import gymnasium.vector.utils as theirs
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, GraphInstance, Sequence, Text, Tuple
from lockstep import ALL_LEAVES, ARRAY_LEAVES, assert_same, nested
from names import name_of

from gymvec.vector.copying import copy_value, own_action
from gymvec.vector.space_tree import (
    bind_reader,
    bind_stacker,
    bind_writer,
    blocks_of,
    is_array_leaf,
    leaves,
    subspaces,
)

N = 3


def spaces():
    yield from ((name, make()) for name, make in ALL_LEAVES.items())
    yield "nested arrays", nested(ARRAY_LEAVES)
    yield "nested all", nested(ALL_LEAVES)
    yield "int keys", Dict({2: Discrete(2), 1: Tuple([Text(3), Discrete(3)])})
    yield "empty", Dict({})


SPACES = dict(spaces())


def samples(space, n=N):
    space.seed(1)
    return [space.sample() for _ in range(n)]


def batch(space, items):
    return theirs.concatenate(space, items, theirs.create_empty_array(space, len(items)))


def places(space, blocks):
    """Blocks as a writer takes them."""
    parts = subspaces(space)
    if parts is None:
        return blocks if is_array_leaf(space) else None
    return {key: places(subspace, blocks[key]) for key, subspace in parts}


def put(tree, path, value):
    *above, last = path
    for key in above:
        tree = tree[key]
    tree[last] = value


@pytest.mark.parametrize("name", SPACES)
def test_stacker(name):
    space = SPACES[name]
    items = samples(space)
    stack = bind_stacker(space, N)
    first = stack(items)
    assert_same(first, batch(space, items))
    second = stack(items[::-1])
    assert_same(first, batch(space, items))
    assert_same(second, batch(space, items[::-1]))


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("name", SPACES)
def test_writers_and_a_reader(name, copy):
    space = SPACES[name]
    blocks = theirs.create_empty_array(space, N)
    read = bind_reader(space, blocks, N)
    for items in (samples(space), samples(space)[::-1]):
        own = places(space, blocks)
        rests = [bind_writer(own, i)(item) or [] for i, item in enumerate(items)]
        others = [leaf for _, leaf in leaves(space) if not is_array_leaf(leaf)]
        assert [len(rest) for rest in rests] == [len(others)] * N
        columns = [list(column) for column in zip(*rests, strict=True)]
        result = read(columns, copy)
        assert_same(result, batch(space, items))
        copies = [block.copy() for block in blocks_of(space, blocks)]
        assert_same(read(columns, copy, copies), result)
    if is_array_leaf(space) and blocks.size:
        assert (result is blocks) is not copy


def test_leaves():
    space = SPACES["int keys"]
    found = list(leaves(space))
    assert [path for path, _ in found] == [(1, 0), (1, 1), (2,)] or [p for p, _ in found] == [
        (2,),
        (1, 0),
        (1, 1),
    ]
    assert [type(leaf) for path, leaf in found if path == (1, 0)] == [Text]
    assert list(leaves(Discrete(2))) == [((), Discrete(2))]
    assert subspaces(Discrete(2)) is None
    assert subspaces(Tuple([Discrete(2)])) == [(0, Discrete(2))]


def test_a_writer_leaves_rows_whole():
    space = Dict({"a": Box(-9, 9, (2,)), "b": Box(-9, 9, (2,))})
    blocks = theirs.create_empty_array(space, 2)
    write = bind_writer(places(space, blocks), 1)
    write({"a": [1, 2], "b": np.array([3.0, 4.0]), "more": 0})
    with pytest.raises(ValueError, match=r"\(3,\)"):
        write({"a": np.zeros(2, np.float32), "b": np.zeros(3)})
    with pytest.raises(KeyError, match="a"):
        write({"b": np.zeros(2)})
    with pytest.raises(TypeError):
        write(None)
    with pytest.raises(ValueError):
        write({"a": np.full(2, 5.0), "b": [1.0, "x"]})
    assert_same(blocks["a"], np.array([[0, 0], [5, 5]], np.float32))
    assert_same(blocks["b"], np.array([[0, 0], [3, 4]], np.float32))


def test_a_writer_outside_the_block():
    for index in (-1, 2):
        with pytest.raises(IndexError):
            bind_writer(np.zeros(2, int), index)


def test_a_writer_of_other_mappings():
    space = Dict({"a": Discrete(9), "b": Tuple([Discrete(9)])})
    blocks = theirs.create_empty_array(space, 1)
    bind_writer(places(space, blocks), 0)(OrderedDict(b=[7], a=np.int64(5)))
    assert blocks["a"].tolist() == [5]
    assert blocks["b"][0].tolist() == [7]


class OwnBox(Box):
    """A space with a user's handler."""


def test_a_users_handler_makes_an_other_leaf():
    space = OwnBox(-1, 1, (2,))
    assert is_array_leaf(space)
    theirs.create_empty_array.register(OwnBox, lambda space, n=1, fn=np.zeros: "mine")
    assert not is_array_leaf(space)


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value",
    [
        1,
        "a",
        None,
        np.float32(1.5),
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.ones((2, 3))),
        np.array([1, 2], ">i4"),
        np.array([[1], None], dtype=object),
        np.ma.masked_array([1.0, 2.0], [True, False]),
        (np.zeros(2), [np.ones(1), {"a": (np.zeros(0),)}]),
        OrderedDict(a=np.zeros(2)),
        Point(np.zeros(1), 2),
        GraphInstance(np.zeros((2, 1)), None, np.zeros((1, 2), int)),
        Graph(Discrete(2), Discrete(2), seed=1).sample(),
        Sequence(Discrete(3), stack=True, seed=1).sample(),
    ],
    ids=name_of,
)
def test_copy_value_is_a_deepcopy(value):
    copied = copy_value(value)
    expected = deepcopy(value)
    assert_same(copied, expected)
    if isinstance(value, np.ndarray):
        assert not np.shares_memory(copied, value)
        assert copied.strides == expected.strides


def test_own_action():
    fortran = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    swapped = np.arange(3).astype(">i8")
    action = {"a": (fortran, [swapped]), "b": 3, "c": np.float32(1)}
    own = own_action(action)
    plain = (np.arange(6.0).reshape(2, 3), [np.arange(3)])
    assert_same(own, {"a": plain, "b": 3, "c": np.float32(1)})
    assert own["a"][0].flags.c_contiguous
    assert not np.shares_memory(own["a"][1][0], swapped)
    anything = object()
    assert own_action(anything) is anything
