"""iterate: NumPy's iteration, lazily, over every kind of batch."""

import gymnasium.vector.utils as theirs
import numpy as np
import pytest
import spaces_zoo as zoo
from equality import assert_same, assert_same_outcome, leaves, outcome
from gymnasium.error import CustomSpaceError
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from names import name_of

import gymvec.utils as ours


def batch(name, n):
    """A batched space and a sample of it."""
    space = zoo.make(name)
    return theirs.batch_space(space, n), theirs.concatenate(
        space, zoo.samples(space, n), theirs.create_empty_array(space, n)
    )


# Gymnasium fails over these; they have tests of their own.
EMPTY = {"dict empty", "dict empty inside"}


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", [name for name in zoo.ZOO if name not in EMPTY])
def test_iterate(name, n):
    space, items = batch(name, n)

    def everything(iterate):
        return list(iterate(space, items))

    actual, expected = outcome(everything, ours.iterate), outcome(everything, theirs.iterate)
    assert_same_outcome(actual, expected)


@pytest.mark.parametrize("n", [255, 256, 1024])
@pytest.mark.parametrize("name", [n for n in zoo.KINDS if n not in ("graph", "sequence", "one of")])
def test_batch_sample_iterate_concatenate_iterate(name, n):
    single = zoo.make(name)
    space = ours.batch_space(single, n)
    items = list(ours.iterate(space, space.sample()))
    again = ours.concatenate(single, items, ours.create_empty_array(single, n))
    expected_space = theirs.batch_space(zoo.make(name), n)
    expected = list(theirs.iterate(expected_space, expected_space.sample()))
    assert_same(items, expected)
    assert len(items) == n
    assert_same(list(ours.iterate(space, again)), list(theirs.iterate(space, again)))


@pytest.mark.parametrize("name", ["box float32", "box image", "box >f4", "dict"])
def test_rows_are_views(name):
    space, items = batch(name, 3)
    blocks = leaves(items)
    for i, item in enumerate(ours.iterate(space, items)):
        for row, block in zip(leaves(item), blocks, strict=True):
            assert row.base is block or row.base is block.base
            assert np.shares_memory(row, block[i])


@pytest.mark.parametrize("name", ["box float32", "tuple", "dict", "dict empty", "tuple empty"])
def test_what_comes_back_is_an_iterator(name):
    space, items = batch(name, 3)
    iterator = ours.iterate(space, items)
    assert iter(iterator) is iterator
    assert len(list(iterator)) == (0 if "empty" in name else 3)
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)


def fails_at(place, length):
    """An iterable of numbers that raises once and could go on afterwards."""

    class Part:
        count = -1

        def __iter__(self):
            return self

        def __next__(self):
            self.count += 1
            if self.count == place:
                raise ArithmeticError("lost")
            if self.count >= length:
                raise StopIteration
            return self.count

    return Part()


@pytest.mark.parametrize(
    "parts",
    [
        lambda: {"a": fails_at(1, 4), "b": fails_at(9, 4)},
        lambda: {"a": fails_at(9, 4), "b": fails_at(1, 4)},
        lambda: {"a": fails_at(9, 2), "b": fails_at(9, 5)},
        lambda: {"a": fails_at(9, 5), "b": fails_at(9, 2)},
        lambda: {"a": fails_at(9, 2), "b": fails_at(2, 5)},
        lambda: {"a": fails_at(0, 2)},
        lambda: {"a": fails_at(9, 2), "b": 3},
    ],
)
def test_a_dict_that_failed_has_ended(parts):
    space = Dict({"a": Box(0, 9, (3,)), "b": Box(0, 9, (3,))})
    mine, original = ours.iterate(space, parts()), theirs.iterate(space, parts())
    for _ in range(8):
        assert_same_outcome(outcome(next, mine), outcome(next, original))


def test_a_dict_space_that_grows_before_the_first_item():
    space = Dict({"a": Box(0, 9, (2,))})
    items = {"a": np.zeros(2), **{str(i): np.zeros(2) for i in range(50)}}
    iterator = ours.iterate(space, items)
    for i in range(50):
        space.spaces[str(i)] = Box(0, 9, (2,))
    assert_same(next(iterator), next(theirs.iterate(space, items)))


def test_a_part_that_asks_for_the_next_item():
    class Part:
        def __iter__(self):
            return self

        def __next__(self):
            return next(iterator)

    iterator = ours.iterate(
        Dict({"a": Box(0, 9, (2,)), "b": Box(0, 9, (2,))}), {"a": [1, 2], "b": Part()}
    )
    assert outcome(next, iterator).error is not None


def test_iterate_is_lazy():
    read = []

    class Items(dict):
        def __getitem__(self, key):
            read.append(key)
            return super().__getitem__(key)

    def rows():
        for i in range(3):
            read.append(i)
            yield i

    space = Dict({"a": Box(0, 9, (3,)), "b": MultiDiscrete([4, 4, 4])})
    iterator = ours.iterate(space, Items(a=rows(), b=np.arange(3)))
    assert read == []
    assert next(iterator) == {"a": 0, "b": 0}
    assert read == ["a", "b", 0]


@pytest.mark.parametrize(
    "space, lengths",
    [
        (Tuple([Box(0, 1, (2,)), Box(0, 1, (3,))]), (2, 3)),
        (Tuple([Box(0, 1, (2,)), Box(0, 1, (3,))]), (3, 2)),
        (Dict({"a": Box(0, 1, (2,)), "b": Box(0, 1, (3,))}), (2, 3)),
        (Dict({"a": Box(0, 1, (2,)), "b": Tuple([Box(0, 1, (3,))])}), (3, 2)),
        (Dict({"a": Box(0, 1, (2,)), "b": Box(0, 1, (3,))}), (0, 1)),
    ],
    ids=name_of,
)
def test_unequal_lengths(space, lengths):
    parts = [np.zeros(length, np.float32) for length in lengths]
    items = dict(zip("ab", parts, strict=True)) if isinstance(space, Dict) else tuple(parts)
    if isinstance(space, Dict) and isinstance(space["b"], Tuple):
        items["b"] = (items["b"],)
    found = []

    def everything(iterate):
        seen = []
        found.append(seen)
        seen.extend(iterate(space, items))

    def one_by_one(iterate):
        iterator, seen = iterate(space, items), []
        found.append(seen)
        for item in iterator:
            seen.append(item)

    for run in (everything, one_by_one):
        expected = outcome(run, theirs.iterate)
        assert isinstance(expected.error, ValueError)
        assert_same_outcome(outcome(run, ours.iterate), expected)
    assert_same(found[-1], found[-2])


@pytest.mark.parametrize("name", ["dict empty", "tuple empty"])
@pytest.mark.parametrize("n", [1, 3])
def test_empty_spaces_end_at_once(name, n):
    space, items = batch(name, n)
    iterator = ours.iterate(space, items)
    with pytest.raises(StopIteration):
        next(iterator)


def test_an_empty_dict_inside_another_ends_at_once():
    space = Dict({"nothing": Dict({}), "level": MultiDiscrete([3, 3])})
    with pytest.raises(ValueError):
        # Strict about lengths: none here, two there.
        list(ours.iterate(space, {"nothing": {}, "level": np.zeros(2, int)}))
    space = Dict({"nothing": Dict({}), "void": Tuple([])})
    assert list(ours.iterate(space, {"nothing": {}, "void": ()})) == []


ODD_ITEMS = [
    None,
    5,
    2.5,
    np.array(3.0),
    "ab",
    "",
    [],
    [1, 2],
    (3,),
    {},
    {"a": 1},
    {1},
    object,
    np.zeros((0, 2)),
    np.zeros((2, 0)),
    memoryview(b"ab"),
]
ODD_SPACES = [
    Box(0, 1, (2,)),
    Box(0, 1, ()),
    Discrete(3),
    MultiDiscrete([2, 2]),
    MultiBinary(2),
    Tuple([Box(0, 1, (2,))]),
    Tuple([Box(0, 1, (2,)), MultiBinary(2)]),
    Dict({"a": Box(0, 1, (2,))}),
    Tuple([Discrete(2)]),
    Dict({"a": Discrete(2)}),
    Tuple([zoo.CustomSpace()]),
    Tuple([zoo.CustomSpace(), Box(0, 1, (2,))]),
    zoo.CustomSpace(),
    zoo.CustomBox(0, 1, (2,)),
    zoo.CustomDiscrete(2),
    *(zoo.make(name) for name in ("graph", "sequence", "text", "one of")),
]


@pytest.mark.parametrize("space", ODD_SPACES, ids=name_of)
def test_odd_items(space):
    for items in ODD_ITEMS:
        actual, expected = (
            outcome(ours.iterate, space, items),
            outcome(theirs.iterate, space, items),
        )
        if expected.error is None:
            actual, expected = outcome(list, actual.result), outcome(list, expected.result)
        assert_same_outcome(actual, expected)


@pytest.mark.parametrize(
    "space",
    [zoo.CustomSpace(), *(zoo.make(n) for n in ("graph", "text", "sequence", "one of"))],
    ids=name_of,
)
def test_unregistered_spaces(space):
    with pytest.raises(CustomSpaceError, match="Register .* for `iterate` to support it"):
        ours.iterate(space, [1, 2])


@pytest.mark.parametrize("space", [None, 3, "box", Box, np.zeros(2)], ids=name_of)
def test_not_a_space(space):
    expected = outcome(theirs.iterate, space, [1])
    assert type(expected.error) is TypeError
    assert_same_outcome(outcome(ours.iterate, space, [1]), expected)


def test_keywords():
    space, items = batch("dict", 2)
    assert_same(list(ours.iterate(space, items=items)), list(theirs.iterate(space, items=items)))
    for arguments in ((), (space,), (space, items, 1)):
        expected = outcome(theirs.iterate, *arguments)
        assert type(outcome(ours.iterate, *arguments).error) is type(expected.error) is TypeError
