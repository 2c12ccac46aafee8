"""Infos are gathered as Gymnasium's own method gathers them, to the bit and the error."""

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from info_strategies import N, arrays, gymnasiums, infos, numbers, odd_infos, outcome
from lockstep import assert_same

from gymvec.kernels.infos import InfoBatch, add_info, gather_infos


def one_by_one(items, n=N):
    infos = {}
    for index, info in items:
        infos = add_info(infos, info, index, n)
    return infos


def assert_as_gymnasium(items):
    expected = outcome(gymnasiums, items)
    for ours in (gather_infos_of, one_by_one):
        result, error, warned = outcome(ours, items)
        assert error == expected[1]
        assert warned == expected[2]
        assert_same(result, expected[0], "infos")


def gather_infos_of(items):
    return gather_infos(items, N)


mixtures = st.lists(
    st.tuples(st.integers(0, N - 1), st.one_of(infos, infos, odd_infos)), max_size=8
)


@settings(suppress_health_check=list(HealthCheck))
@given(mixtures)
def test_mixtures(items):
    assert_as_gymnasium(items)


@settings(suppress_health_check=list(HealthCheck))
@given(st.data())
def test_changing_values_of_the_same_keys(data):
    names = data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True))
    same = st.fixed_dictionaries({name: st.one_of(numbers, arrays) for name in names})
    assert_as_gymnasium([(i, data.draw(same)) for i in range(N)])


@pytest.mark.parametrize(
    "values",
    [
        [1, 2.9, True],
        [1.5, 2, True, np.float32(0.1), "3.25"],
        [True, 0, 2, 0.5, "x"],
        [np.float32(0.1), 0.1, 1e300],
        [np.int8(1), 300],
        [1, 2**63],
        [1, None],
        [1.0, None],
        ["a", 1, None, [1]],
        [np.zeros(2), np.ones(2, np.float32), 3.0, [4, 5]],
        [np.zeros(2), np.ones(3)],
        [np.zeros((2, 1)), np.ones((1, 1))],
        [np.array(3), 4, np.array([5])],
        [{"x": 1}, 2],
        [1, {"x": 2}],
        [1, {}],
        [{}, {"x": 1}],
        [{"x": {"y": 1}}, {"x": {"z": 2}}, {"x": 3}],
        [OrderedDict(x=1), {"x": 2.5}],
        [np.bool_(True), True, 0],
    ],
)
def test_values_that_change_their_type(values):
    assert_as_gymnasium([(i % N, {"key": value, "after": 1.0}) for i, value in enumerate(values)])


@pytest.mark.parametrize(
    "infos",
    [
        [{"a": 1.0, "_a": 2.0}, {"_a": 3.0, "a": 4.0}],
        [{"_a": 2.5, "a": 1.0}, {"a": 4.0}],
        [{"_a": {"b": 1}}, {"a": 4.0}],
        [{"_a": "x"}, {"a": 4.0}, {"a": 5.0}],
        [{"_a": np.zeros(3)}, {"a": 4.0}],
        [{"a": {"b": 1}, "_a": 1}, {"a": {"b": 2}, "_a": 0}],
        [{"final_obs": np.zeros(2), "final_info": {"final_obs": 1, "r": 2.0}}, {"r": 1.0}],
        [{"final_obs": {"x": 1}}, {"final_obs": 2}],
        [{"_final_obs": 2.0, "final_obs": 1}],
    ],
)
def test_keys_that_share_an_entry(infos):
    assert_as_gymnasium(list(enumerate(infos)))


def test_literal():
    infos = gather_infos([(2, {"speed": 1.5, "at": {"x": 3}}), (0, {"speed": 2.5})], 3)
    assert_same(
        infos,
        {
            "speed": np.array([2.5, 0.0, 1.5]),
            "_speed": np.array([True, False, True]),
            "at": {"x": np.array([0, 0, 3]), "_x": np.array([False, False, True])},
            "_at": np.array([False, False, True]),
        },
    )


def test_an_environment_may_come_twice():
    assert_as_gymnasium([(1, {"final_info": {"a": 1.0}, "a": 2.0}), (1, {"a": 3.0})])


@pytest.mark.parametrize("index", [-1, 3, 2**40])
def test_index_outside(index):
    with pytest.raises(IndexError):
        InfoBatch(3).add({"a": 1.0}, index)


def test_not_a_dict():
    for info in (None, 3, [("a", 1)]):
        with pytest.raises(AttributeError, match="items"):
            gather_infos([(0, info)], 2)


def test_the_result_is_the_callers_own():
    value = np.zeros(2)
    batch = InfoBatch(2)
    batch.add({"a": value, "b": {"c": value}}, 0)
    batch.infos["a"][:] = 7
    batch.infos["b"]["c"][:] = 7
    assert value.tolist() == [0.0, 0.0]
