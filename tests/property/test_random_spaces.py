"""Random spaces and values through both packages: the same result or the same error."""

from copy import deepcopy

import gymnasium.vector.utils as theirs
import numpy as np
import pytest
import spaces_zoo as zoo
from equality import assert_same, assert_same_outcome, leaves, outcome, value_bytes
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from hypothesis import given
from hypothesis import strategies as st
from property import strategies as some
from utils.test_shared_memory import contents

import gymvec.utils as ours

COUNTS = st.integers(0, 5)


@given(some.everything(), COUNTS, st.integers(0, 99))
def test_batch_space(space, n, seed):
    space.seed(seed)
    expected = outcome(theirs.batch_space, deepcopy(space), n)
    actual = outcome(ours.batch_space, deepcopy(space), n)
    assert_same_outcome(actual, expected)
    # The padding of the spaces' random numbers is no matter of either package.
    if expected.error is None:
        assert_same(outcome(actual.result.sample).result, outcome(expected.result.sample).result)


@given(some.everything(), st.data())
def test_batch_differing_spaces(space, data):
    spaces = [deepcopy(space) for _ in range(data.draw(st.integers(0, 3)))]
    if spaces and data.draw(st.booleans()):
        spaces[-1] = data.draw(some.everything())
    for seed, one in enumerate(spaces):
        one.seed(seed)
    expected = outcome(theirs.batch_differing_spaces, deepcopy(spaces))
    assert_same_outcome(
        outcome(ours.batch_differing_spaces, deepcopy(spaces)),
        expected,
        text="current list" not in str(expected.error),
    )


@given(some.everything(), COUNTS)
def test_create_empty_array(space, n):
    assert_same_outcome(
        outcome(ours.create_empty_array, space, n), outcome(theirs.create_empty_array, space, n)
    )
    single = ours.create_empty_array(space, n=None)
    if isinstance(space, Box | Discrete | MultiDiscrete | MultiBinary):
        assert_same(np.asarray(single), np.zeros(space.shape, space.dtype))


@given(some.spaces_and_items(some.everything()), st.integers(-1, 1))
def test_concatenate(space_and_items, more):
    space, items = space_and_items
    n = max(len(items) + (more if len(items) > 1 else 0), 0)
    out, reference = (theirs.create_empty_array(space, n, fn=np.ones) for _ in range(2))
    before = deepcopy(out)
    expected = outcome(theirs.concatenate, space, items, reference)
    assert_same_outcome(outcome(ours.concatenate, space, items, out), expected)
    # Where NumPy stopped half-way, ours are as before.
    for leaf, theirs_leaf, old in zip(leaves(out), leaves(reference), leaves(before), strict=True):
        if expected.error is None or value_bytes(leaf) != value_bytes(old):
            assert_same(leaf, theirs_leaf)


@given(some.spaces_and_items(some.everything()), st.data())
def test_iterate(space_and_items, data):
    space, items = space_and_items
    batch = outcome(theirs.concatenate, space, items, theirs.create_empty_array(space, len(items)))
    value = batch.result if batch.error is None else items
    if data.draw(st.booleans()):
        value = some.corrupted(data.draw, value)
    batched = theirs.batch_space(space, len(items)) if data.draw(st.integers(0, 3)) else space

    def everything(iterate):
        return list(iterate(batched, value))

    expected = outcome(everything, theirs.iterate)
    if "not enough values to unpack (expected 2, got 0)" in str(expected.error):
        # Over an empty Dict Gymnasium fails, by mistake. It has no items, where others may have.
        error = outcome(everything, ours.iterate).error
        assert error is None or "zip()" in str(error) or not isinstance(batched, Dict)
        return
    assert_same_outcome(outcome(everything, ours.iterate), expected)


class WrongSizeError(Exception):
    """A value has another number of elements than the row of its leaf."""


def write_by_parts(space, index, value, memory):
    """Gymnasium's function on one array leaf after another, in the order of the space.

    Gymnasium writes a single number to each element of a row. That is a WrongSizeError here.
    """
    if isinstance(space, Tuple):
        for part, part_memory, subspace in zip(value, memory, space.spaces, strict=True):
            write_by_parts(subspace, index, part, part_memory)
    elif isinstance(space, Dict):
        for key, subspace in space.spaces.items():
            write_by_parts(subspace, index, value[key], memory[key])
    else:
        row = outcome(np.asarray, value, space.dtype).result
        if row is not None and row.size != np.prod(space.shape):
            raise WrongSizeError
        theirs.write_to_shared_memory(space, index, value, memory)


@given(some.spaces_and_items(some.nested(some.arrays(), one_of=False)))
def test_shared_memory_of_arrays(space_and_items):
    """The first part that cannot be written is the error; the parts before it are written."""
    space, items = space_and_items
    n = len(items)
    memory, reference = ours.create_shared_memory(space, n), theirs.create_shared_memory(space, n)
    for index, item in enumerate(items):
        actual = outcome(ours.write_to_shared_memory, space, index, item, memory)
        expected = outcome(write_by_parts, space, index, item, reference)
        if isinstance(expected.error, WrongSizeError):
            assert type(actual.error) is ValueError and "expected one row" in str(actual.error)
        else:
            assert_same_outcome(actual, expected)
        assert contents(memory) == contents(reference)
    assert_same(
        ours.read_from_shared_memory(space, memory, n),
        theirs.read_from_shared_memory(space, reference, n),
    )


def has_one_of(space):
    inner = getattr(space, "spaces", ())
    inner = inner.values() if isinstance(inner, dict) else inner
    return type(space).__name__ == "OneOf" or any(map(has_one_of, inner))


@given(some.shareable(), st.integers(1, 4), st.integers(0, 2**16), st.data())
def test_shared_memory_round_trip(space, n, seed, data):
    values = zoo.samples(space, n, seed)
    memory = ours.create_shared_memory(space, n)
    for index in data.draw(st.permutations(range(n))):
        ours.write_to_shared_memory(space, np.int16(index), values[index], memory)
    read = ours.read_from_shared_memory(space, memory, n)
    if has_one_of(space):
        reference = ours.create_shared_memory(space, n)
        for index, value in enumerate(values):
            theirs.write_to_shared_memory(space, index, value, reference)
        assert contents(memory) == contents(reference)
        if isinstance(space, Tuple | Dict):
            return
        for (index, sample), (expected_index, expected) in zip(read, values, strict=True):
            assert index == expected_index
            if not has_one_of(space.spaces[index]) and not isinstance(sample, np.generic):
                assert_same(deepcopy(_plain(sample)), deepcopy(_plain(expected)))
        return
    reference = theirs.create_shared_memory(space, n)
    for index, value in enumerate(values):
        theirs.write_to_shared_memory(space, index, value, reference)
    assert_same(read, theirs.read_from_shared_memory(space, reference, n))


def _plain(value):
    """Without dtypes and the classes of scalars, which a round trip through rows may change."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_plain(part) for part in value)
    return value if isinstance(value, str) else np.asarray(value).tolist()


@given(some.shareable(), st.integers(1, 4), st.data())
def test_an_index_outside_is_always_an_index_error(space, n, data):
    memory = ours.create_shared_memory(space, n)
    before = contents(memory)
    if not any(before):
        return
    index = data.draw(st.one_of(st.integers(max_value=-1), st.integers(min_value=n)))
    value = some.corrupted(data.draw, zoo.samples(space, 1)[0])
    with pytest.raises(IndexError):
        ours.write_to_shared_memory(space, index, value, memory)
    assert contents(memory) == before


@given(some.texts(), st.one_of(st.text(max_size=8), st.sampled_from(some.JUNK)))
def test_any_text(space, value):
    memory = ours.create_shared_memory(space, 2)
    ours.write_to_shared_memory(space, 1, zoo.samples(space, 1)[0], memory)
    before = contents(memory)
    fits = (
        isinstance(value, str)
        and len(value) <= space.max_length
        and set(value) <= space.character_set
    )
    if fits:
        ours.write_to_shared_memory(space, 1, value, memory)
        assert ours.read_from_shared_memory(space, memory, 2)[1] == value
        return
    with pytest.raises(ValueError if isinstance(value, str) else TypeError):
        ours.write_to_shared_memory(space, 1, value, memory)
    assert contents(memory) == before
    assert isinstance(space, Text)
