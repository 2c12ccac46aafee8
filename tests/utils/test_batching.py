"""batch_space and batch_differing_spaces."""

from copy import deepcopy

import gymnasium.vector.utils as theirs
import numpy as np
import pytest
import spaces_zoo as zoo
from equality import assert_same, assert_same_outcome, assert_same_space, outcome
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Text,
    Tuple,
)
from names import name_of

import gymvec.utils as ours

COUNTS = (1, 2, 8, 255, 256, 1024)


@pytest.mark.parametrize("n", [1, 2, 8])
@pytest.mark.parametrize("name", zoo.ZOO)
def test_batch_space(name, n):
    actual = outcome(ours.batch_space, zoo.make(name), n)
    expected = outcome(theirs.batch_space, zoo.make(name), n)
    assert_same_outcome(actual, expected)
    assert expected.error is None


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize("name", zoo.KINDS)
def test_batch_space_of_every_count(name, n):
    assert_same_space(ours.batch_space(zoo.make(name), n), theirs.batch_space(zoo.make(name), n))


@pytest.mark.parametrize("name", [name for name in zoo.ZOO if name != "box longdouble"])
def test_samples_of_the_batch(name):
    actual, expected = ours.batch_space(zoo.make(name), 3), theirs.batch_space(zoo.make(name), 3)
    for _ in range(3):
        assert_same(actual.sample(), expected.sample())


def generators(space):
    """The generators of a space and of all spaces inside it."""
    inner = getattr(space, "spaces", ())
    inner = inner.values() if isinstance(inner, dict) else inner
    return [space.np_random, *(one for subspace in inner for one in generators(subspace))]


@pytest.mark.parametrize("name", [name for name in zoo.ZOO if name != "box longdouble"])
def test_the_generator_is_copied(name):
    space = zoo.make(name)
    untouched = deepcopy(space)
    batch = ours.batch_space(space, 2)
    assert_same_space(space, untouched)
    assert not set(map(id, generators(space))) & set(map(id, generators(batch)))
    batch.sample()
    assert_same_space(space, untouched)
    fresh = ours.batch_space(space, 2)
    space.sample()
    assert_same_space(fresh, theirs.batch_space(untouched, 2))


@pytest.mark.parametrize("name", ["graph", "text", "sequence", "one of", "custom"])
def test_copies_are_seeded_apart(name):
    states = [
        str(copy.np_random.bit_generator.state)
        for copy in ours.batch_space(zoo.make(name), 4).spaces
    ]
    assert len(set(states)) == 4


def test_defaults():
    assert_same_space(
        ours.batch_space(zoo.make("box float32")), theirs.batch_space(zoo.make("box float32"))
    )


@pytest.mark.parametrize("n", [0, -1, 2.0, "2", None, np.int64(3), np.uint8(2), True])
@pytest.mark.parametrize("name", zoo.KINDS)
def test_odd_counts(name, n):
    assert_same_outcome(
        outcome(ours.batch_space, zoo.make(name), n),
        outcome(theirs.batch_space, zoo.make(name), n),
    )


@pytest.mark.parametrize("low, high", [(2, 1), (np.nan, 1), (0, np.nan), (-np.inf, np.inf)])
@pytest.mark.parametrize("n", [1, 3])
def test_a_box_whose_bounds_were_changed(low, high, n):
    def changed():
        space = Box(0, 3, (2,), np.float32, seed=1)
        space.low, space.high = np.full(2, low, np.float32), np.full(2, high, np.float32)
        return space

    assert_same_outcome(
        outcome(ours.batch_space, changed(), n), outcome(theirs.batch_space, changed(), n)
    )


def _seeded(spaces):
    for seed, space in enumerate(spaces):
        space.seed(seed)
    return spaces


DIFFERING = {
    "box": lambda: [Box(0, 1, (2,)), Box(-3, 4, (2,)), Box(-np.inf, np.inf, (2,))],
    "box int": lambda: [Box(0, 1, (2,), np.int8), Box(-128, 127, (2,), np.int8)],
    "box >f4": lambda: [Box(0, 1, (2,), ">f4"), Box(-2, 1, (2,), ">f4")],
    "box scalar": lambda: [Box(0, 1, ()), Box(0, 2, ())],
    "box empty": lambda: [Box(0, 1, (0,)), Box(0, 2, (0,))],
    "box half bounded": lambda: [Box(0, np.inf, (2,)), Box(-np.inf, 0, (2,))],
    "box subclass second": lambda: [Box(0, 1, (2,)), zoo.CustomBox(0, 1, (2,))],
    "box classes": lambda: [Box(0, 1, (2,)), Discrete(2)],
    "box dtypes": lambda: [Box(0, 1, (2,), np.float32), Box(0, 1, (2,), np.float64)],
    "box byte orders": lambda: [Box(0, 1, (2,), "<f4"), Box(0, 1, (2,), ">f4")],
    "box shapes": lambda: [Box(0, 1, (2,)), Box(0, 1, (3,))],
    "discrete": lambda: [Discrete(3), Discrete(5, start=-7)],
    "discrete dtypes": lambda: [zoo.discrete(3, np.int8), zoo.discrete(300, np.int32)],
    "discrete same size": lambda: [zoo.discrete(3, np.uint8), zoo.discrete(3, np.int8)],
    "discrete one": lambda: [Discrete(3)],
    "multi discrete": lambda: [MultiDiscrete([3, 2]), MultiDiscrete([1, 9], start=[4, -4])],
    "multi discrete dtypes": lambda: [
        MultiDiscrete([3], dtype=np.int8),
        MultiDiscrete([3], dtype=np.int32),
    ],
    "multi discrete shapes": lambda: [MultiDiscrete([3]), MultiDiscrete([3, 3])],
    "multi binary": lambda: [MultiBinary([2, 3]), MultiBinary([2, 3])],
    "multi binary shapes": lambda: [MultiBinary(2), MultiBinary(3)],
    "tuple": lambda: [Tuple([Discrete(2), Box(0, 1, (2,))]), Tuple([Discrete(3), Box(0, 2, (2,))])],
    "tuple lengths": lambda: [Tuple([Discrete(2)]), Tuple([Discrete(2), Discrete(2)])],
    "tuple classes inside": lambda: [Tuple([Discrete(2)]), Tuple([MultiBinary(2)])],
    "tuple empty": lambda: [Tuple([]), Tuple([])],
    "dict": lambda: [
        Dict({"b": Discrete(2), "a": Box(0, 1, (2,))}),
        Dict({"a": Box(0, 2, (2,)), "b": Discrete(4)}),
    ],
    "dict keys": lambda: [Dict({"a": Discrete(2)}), Dict({"b": Discrete(2)})],
    "dict more keys": lambda: [
        Dict({"a": Discrete(2)}),
        Dict({"a": Discrete(2), "b": Discrete(2)}),
    ],
    "dict nested": lambda: [
        Dict({"a": Dict({"b": Discrete(2 + i)}), "c": Tuple([Discrete(3 + i)])}) for i in range(3)
    ],
    "dict dtypes inside": lambda: [
        Dict({"a": Box(0, 1, (2,))}),
        Dict({"a": Box(0, 1, (2,), np.float64)}),
    ],
    "dict empty": lambda: [Dict({}), Dict({})],
    "text": lambda: [Text(3), Text(5, charset="ab")],
    "graph": lambda: [Graph(Discrete(2), None), Graph(Box(0, 1, (2,)), Discrete(2))],
    "sequence": lambda: [Sequence(Discrete(2)), Sequence(Discrete(3), stack=True)],
    "one of": lambda: [OneOf([Discrete(2)]), OneOf([Discrete(2), Box(0, 1, (2,))])],
    "none": lambda: [],
    "a tuple of spaces": lambda: (Discrete(2), Discrete(3)),
}
# Their text shows the addresses of functions.
UNREGISTERED = {
    "custom": lambda: [zoo.CustomSpace(), zoo.CustomSpace()],
    "custom box": lambda: [zoo.CustomBox(0, 1, (2,)), zoo.CustomBox(0, 1, (2,))],
    "custom inside": lambda: [Tuple([zoo.CustomSpace()]), Tuple([zoo.CustomSpace()])],
}


@pytest.mark.parametrize("name", DIFFERING)
def test_batch_differing_spaces(name):
    spaces = _seeded(DIFFERING[name]())
    assert_same_outcome(
        outcome(ours.batch_differing_spaces, deepcopy(spaces)),
        outcome(theirs.batch_differing_spaces, deepcopy(spaces)),
    )


@pytest.mark.parametrize("name", UNREGISTERED)
def test_batch_differing_spaces_of_unregistered(name):
    spaces = _seeded(UNREGISTERED[name]())
    assert_same_outcome(
        outcome(ours.batch_differing_spaces, deepcopy(spaces)),
        outcome(theirs.batch_differing_spaces, deepcopy(spaces)),
        text=False,
    )
    with pytest.raises(TypeError, match="Requires the Space type to have a registered"):
        ours.batch_differing_spaces(UNREGISTERED[name]())


@pytest.mark.parametrize("name", zoo.ZOO)
def test_batch_differing_spaces_of_equal_ones(name):
    assert_same_outcome(
        outcome(ours.batch_differing_spaces, [zoo.make(name, seed) for seed in range(3)]),
        outcome(theirs.batch_differing_spaces, [zoo.make(name, seed) for seed in range(3)]),
        text="custom" not in name,
    )


@pytest.mark.parametrize("name", ["box", "discrete", "multi discrete", "tuple", "dict"])
def test_sampling_differing_spaces_moves_none_of_them(name):
    spaces = _seeded(DIFFERING[name]())
    untouched = deepcopy(spaces)
    ours.batch_differing_spaces(spaces).sample()
    for space, before in zip(spaces, untouched, strict=True):
        assert_same_space(space, before)


NO_SPACES = [None, 5, 2.5, "box", [1], {}, np.zeros(2), Box, object]


@pytest.mark.parametrize("value", NO_SPACES, ids=name_of)
def test_not_a_space(value):
    actual, expected = outcome(ours.batch_space, value), outcome(theirs.batch_space, value)
    assert isinstance(expected.error, TypeError)
    assert_same_outcome(actual, expected)


@pytest.mark.parametrize(
    "value",
    [None, 5, [1], [1, 2.0], [None], "ab", [Discrete(2), 3], Discrete(2), Box(0, 1)],
    ids=name_of,
)
def test_not_a_list_of_spaces(value):
    actual = outcome(ours.batch_differing_spaces, value)
    expected = outcome(theirs.batch_differing_spaces, value)
    assert_same_outcome(actual, expected, text="current list" not in str(expected.error))
    assert isinstance(expected.error, TypeError)


@pytest.mark.parametrize("name", ["batch_space", "batch_differing_spaces"])
def test_without_arguments(name):
    for package in (ours, theirs):
        with pytest.raises(TypeError, match="positional argument"):
            getattr(package, name)()
