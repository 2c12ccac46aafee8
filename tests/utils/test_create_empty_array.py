"""create_empty_array: batches to fill, and single samples with ``n=None``."""

import gymnasium.vector.utils as theirs
import numpy as np
import pytest
import spaces_zoo as zoo
from equality import assert_same, assert_same_outcome, leaves, outcome
from gymnasium.spaces import Box, Dict, Discrete, Graph, GraphInstance, OneOf, Sequence, Text, Tuple
from names import name_of

import gymvec.utils as ours


@pytest.mark.parametrize("n", [0, 1, 2, 8])
@pytest.mark.parametrize("name", zoo.ZOO)
def test_create_empty_array(name, n):
    space = zoo.make(name)
    assert_same_outcome(
        outcome(ours.create_empty_array, space, n), outcome(theirs.create_empty_array, space, n)
    )


@pytest.mark.parametrize("n", [255, 256, 1024])
@pytest.mark.parametrize("name", zoo.KINDS)
def test_many(name, n):
    space = zoo.make(name)
    assert_same(ours.create_empty_array(space, n), theirs.create_empty_array(space, n))


@pytest.mark.parametrize("name", zoo.ZOO)
def test_defaults_and_other_functions(name):
    space = zoo.make(name)
    assert_same(ours.create_empty_array(space), theirs.create_empty_array(space))
    assert_same(
        ours.create_empty_array(space, n=2, fn=np.ones),
        theirs.create_empty_array(space, n=2, fn=np.ones),
    )


@pytest.mark.parametrize("name", zoo.KINDS)
def test_each_batch_is_its_own(name):
    space = zoo.make(name)
    one, other = ours.create_empty_array(space, 3), ours.create_empty_array(space, 3)
    every = leaves(one) + leaves(other)
    for i, leaf in enumerate(every):
        assert leaf.flags.writeable
        assert not any(np.shares_memory(leaf, another) for another in every[:i])


def test_a_function_that_records():
    calls = []

    def fn(shape, dtype):
        calls.append((shape, np.dtype(dtype).str))
        return np.zeros(shape, dtype)

    space = zoo.make("tuple all arrays")
    ours.create_empty_array(space, 3, fn)
    mine, calls[:] = list(calls), []
    theirs.create_empty_array(space, 3, fn)
    assert mine == calls and len(calls) == 4


@pytest.mark.parametrize("n", [-1, 2.5, "3", (2,), np.int64(2), True], ids=name_of)
@pytest.mark.parametrize("name", zoo.KINDS)
def test_odd_counts(name, n):
    space = zoo.make(name)
    actual = outcome(ours.create_empty_array, space, n)
    expected = outcome(theirs.create_empty_array, space, n)
    # Python words the error of a wrong count by what was tried with it.
    assert_same_outcome(actual, expected, text=False)


SINGLE = {
    "box float32": np.zeros((2, 2), np.float32),
    "box scalar": np.zeros((), np.float32),
    "box empty": np.zeros((0,), np.float32),
    "box >f4": np.zeros(3, ">f4"),
    "box above zero": np.zeros(2, np.int64),
    "discrete": np.int64(0),
    "discrete uint8": np.uint8(0),
    "multi discrete": np.zeros(3, np.int64),
    "multi binary 2d": np.zeros((2, 3), np.int8),
    "tuple": (np.int64(0), np.zeros(2, np.float32)),
    "tuple empty": (),
    "dict sorted": {"a": np.zeros(1, np.float32), "b": np.int64(0)},
    "dict ordered": {"z": np.int64(0), "a": np.zeros(1, np.float32)},
    "dict empty": {},
    "text": "0",
    "text empty": "",
    "text one": "x",
    "text never any": "",
    "sequence": (),
    "sequence stack": np.zeros((1, 2), np.float32),
    "one of": (np.int64(0), np.int64(0)),
    "one of dict": (np.int64(0), {"a": np.zeros(2, np.float32), "b": np.int64(0)}),
    "custom": None,
    "tuple custom": (None, np.int64(0)),
}


@pytest.mark.parametrize("name", SINGLE)
def test_one_empty_sample(name):
    assert_same(ours.create_empty_array(zoo.make(name), n=None), SINGLE[name])


@pytest.mark.parametrize("name", ["graph", "graph no edges", "graph box edges"])
def test_one_empty_graph(name):
    space = zoo.make(name)
    expected = theirs.create_empty_array(space, 1)[0]
    actual = ours.create_empty_array(space, n=None)
    assert type(actual) is GraphInstance
    assert_same(actual, expected)


# Zero lies in each of these, so that the empty sample does too.
WITH_ZERO = [
    Box(-1, 1, (2, 3)),
    Box(0, 1, ()),
    Discrete(3),
    Discrete(3, start=-1),
    zoo.make("multi discrete"),
    zoo.make("multi binary"),
    zoo.make("dict nested"),
    zoo.make("tuple nested"),
    Text(3),
    Text(3, min_length=2),
    zoo.make("graph"),
    zoo.make("graph no edges"),
    Sequence(Discrete(3)),
    Sequence(Box(-1, 1, (2,)), stack=True),
    OneOf([Discrete(3), Text(2)]),
    Dict({"a": OneOf([Dict({"x": Box(-1, 1, (2,))})]), "b": Text(4)}),
    Tuple([Graph(Discrete(2), None)]),
]


@pytest.mark.parametrize("space", WITH_ZERO, ids=name_of)
def test_one_empty_sample_lies_in_its_space(space):
    assert ours.create_empty_array(space, n=None) in space


def test_one_sample_takes_the_function():
    space = Dict({"a": Box(0, 9, (2,)), "b": Discrete(9), "c": Graph(Box(0, 9, (2,)), None)})
    sample = ours.create_empty_array(space, n=None, fn=np.ones)
    assert_same(sample["a"], np.ones(2, np.float32))
    assert_same(sample["b"], np.int64(1))
    assert_same(sample["c"].nodes, np.ones((1, 2), np.float32))


@pytest.mark.parametrize("space", [None, 3, "box", Box, np.zeros(2)], ids=name_of)
@pytest.mark.parametrize("n", [1, None])
def test_not_a_space(space, n):
    expected = outcome(theirs.create_empty_array, space, n)
    assert type(expected.error) is TypeError
    assert_same_outcome(outcome(ours.create_empty_array, space, n), expected)
