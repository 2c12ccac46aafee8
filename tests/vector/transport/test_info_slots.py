"""Infos that go through slots are those that Gymnasium gathers, to the bit and the error."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from info_strategies import N, arrays, gymnasiums, infos, numbers, outcome
from lockstep import assert_same
from names import name_of

from gymvec.vector.parent.infos import InfoSlots
from gymvec.vector.transport.info_schemas import (
    MAX_SCHEMAS,
    InfoPut,
    SlotColumns,
    SlotWriter,
    same_schema,
    schema_of,
)
from gymvec.vector.transport.memory import SLOT_BYTES

WORKERS = [0, 0, 1, 1]


class Slots:
    """Two workers and the parent on one array of slots."""

    def __init__(self):
        self.slots = np.zeros((N, SLOT_BYTES), np.uint8)
        self.writers = [SlotWriter(self.slots[:2]), SlotWriter(self.slots[2:])]
        self.parent = InfoSlots(self.slots, WORKERS)
        self.messages = 0

    def step(self, items, envs=None):
        """One info an environment, as workers write and the parent reads them."""
        messages = {}
        for env, info in items:
            writer = self.writers[WORKERS[env]]
            put = writer.put(env % 2, info)
            if put != InfoPut.IN_SLOT:
                messages[env] = [info]
                self.messages += 1
            if put == InfoPut.WITH_SCHEMA:
                self.parent.register_schema(env, *writer.new_schema)
        return self.parent.gather({env: got for env, got in messages.items() if got != [{}]}, envs)


def assert_steps(steps):
    slots = Slots()
    for step in steps:
        items = list(enumerate(step))
        expected, error, warned = outcome(gymnasiums, items)
        actual = outcome(slots.step, items)
        assert actual[1] == error
        assert actual[2] == warned
        assert_same(actual[0], expected, "infos")
    return slots


everything = st.lists(st.lists(infos, min_size=N, max_size=N), min_size=1, max_size=4)


@settings(suppress_health_check=list(HealthCheck))
@given(everything)
def test_mixtures(steps):
    assert_steps(steps)


@settings(suppress_health_check=list(HealthCheck))
@given(st.data())
def test_few_schemas_that_come_and_go(data):
    names = data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True))
    value = st.one_of(numbers, arrays, st.fixed_dictionaries({"x": numbers}))
    schemas = [st.fixed_dictionaries({}, optional=dict.fromkeys(names, value)) for _ in range(2)]
    drawn = [data.draw(schema) for schema in schemas] + [{}]
    which = st.lists(st.sampled_from(drawn), min_size=N, max_size=N)
    assert_steps([data.draw(which) for _ in range(4)])


@pytest.mark.parametrize(
    "info",
    [
        {"a": 1.5, "b": 2, "c": True},
        {"a": np.float32(1), "b": np.int8(-3), "c": np.float64("nan"), "d": np.float16(2)},
        {"a": np.arange(6).reshape(2, 3), "b": np.array(3.5), "c": np.zeros((0, 2))},
        {"a": {"b": {"c": 1}, "d": np.ones(2, np.float32)}, "e": {}},
        {"a": -(2**63), "b": 2**63 - 1, "c": -0.0, "d": float("inf")},
        {"a": np.longdouble(1) / 3},
    ],
    ids=name_of,
)
def test_only_the_first_of_each_worker_goes_by_message(info):
    slots = assert_steps([[info] * N] * 3)
    assert slots.messages == 2


@pytest.mark.parametrize(
    "info",
    [
        {"a": "text"},
        {"a": None},
        {"a": np.True_},
        {"a": 2**63},
        {"_a": 1},
        {"final_obs": 1},
        {1: 2},
        {"a": np.ones(2, ">f4")},
        {"a": np.ones(2)[::-1]},
        {"a": np.array(["x"])},
        {"a": np.zeros(200)},
        {"a": 1j},
        {"a": {"b": None}},
        {"a": [1]},
    ],
    ids=name_of,
)
def test_what_goes_by_message(info):
    slots = assert_steps([[info] * N] * 2)
    assert slots.messages == 2 * N


def test_environments_of_another_call_are_left_out():
    slots = Slots()
    slots.step(list(enumerate([{"a": 1.0}] * N)))
    got = slots.step([(1, {"a": 5.0})], frozenset([1]))
    assert_same(got, gymnasiums([(1, {"a": 5.0})]), "infos")


def test_more_schemas_than_numbers_go_by_message():
    writer = SlotWriter(np.zeros((1, SLOT_BYTES), np.uint8))
    assert writer.new_schema is None
    for i in range(MAX_SCHEMAS):
        assert writer.put(0, {f"key{i}": 1}) == InfoPut.WITH_SCHEMA
        number, signature = writer.new_schema
        assert number == i + 1
        assert signature == schema_of({f"key{i}": 1}, SLOT_BYTES).signature
    assert writer.put(0, {"one more": 1}) == InfoPut.WITH_MESSAGE
    assert writer.put(0, {"key7": 2}) == InfoPut.IN_SLOT


@pytest.mark.parametrize("info", [{"a": 2**70}, {"a": "x"}, {"a": 1.0, "b": [1]}, {1: 2}, None])
def test_a_slot_without_its_info_has_no_number(info):
    slots = np.zeros((1, 64), np.uint8)
    writer = SlotWriter(slots)
    assert [writer.put(0, {"a": 1}) for _ in range(2)] == [InfoPut.WITH_SCHEMA, InfoPut.IN_SLOT]
    assert slots[0, :4].tolist() == [1, 0, 0, 0]
    assert writer.put(0, info) == InfoPut.WITH_MESSAGE
    assert slots[0, :4].tolist() == [0, 0, 0, 0]


def test_values_are_copies():
    slots = Slots()
    info = {"a": np.ones(2), "b": 1.0}
    for _ in range(2):
        got = slots.step(list(enumerate([info] * N)))
    slots.step(list(enumerate([{"a": np.zeros(2), "b": 0.0}] * N)))
    assert_same(got, gymnasiums(list(enumerate([info] * N))), "infos")


def test_wrong_arguments():
    with pytest.raises(ValueError, match="slots"):
        SlotWriter(np.zeros((2, 17), np.uint8))
    with pytest.raises(IndexError):
        SlotWriter(np.zeros((2, 64), np.uint8)).put(2, {})
    slots = np.zeros((1, 64), np.uint8)
    table = np.zeros((1, MAX_SCHEMAS + 1), np.int32)
    one = np.zeros(1, np.int32)
    slots[0, 1] = 1  # number 256
    with pytest.raises(RuntimeError, match="corrupt"):
        same_schema(slots, table, one, one.copy())
    with pytest.raises(ValueError, match="int32"):
        same_schema(slots, table.astype(np.int64), one, one.copy())
    for size in (0, 8):
        with pytest.raises(ValueError, match="slots"):
            SlotWriter(np.zeros((2, size), np.uint8))
    for wrong in (slots[0], slots.view(np.int8), slots[:, ::2]):
        with pytest.raises(ValueError):
            same_schema(wrong, table, one, one.copy())
    with pytest.raises(ValueError, match="go together"):
        same_schema(slots, table, np.zeros(2, np.int32), one.copy())


def test_a_number_that_nobody_has_told_of():
    """A worker that writes nonsense is an error, not the infos of something else."""
    table = np.full((1, MAX_SCHEMAS + 1), -1, np.int32)
    one = np.zeros(1, np.int32)
    slots = np.zeros((1, 64), np.uint8)
    slots[0, 0] = 5
    with pytest.raises(RuntimeError, match="environment 0 is corrupt"):
        same_schema(slots, table, one, one.copy())
    whole = InfoSlots(np.zeros((2, SLOT_BYTES), np.uint8), [0, 0])
    batch = whole.batches(1)
    for number in (5, 300, 2**32 - 1):
        whole._slots[1, :4] = np.frombuffer(np.uint32(number).tobytes(), np.uint8)
        with pytest.raises(RuntimeError, match=r"\[1\] is corrupt"):
            batch.load(np.array([1]))


def test_wrong_columns():
    slots = np.zeros((2, 64), np.uint8)
    with pytest.raises(ValueError, match="slots"):
        SlotColumns(slots.astype(np.int8), [])
    with pytest.raises(ValueError, match="slots"):
        SlotColumns(np.zeros((2, 128), np.uint8)[:, ::2], [])
    for offset, dtype, shape in (
        (57, np.float64, ()),
        (-1, np.int8, ()),
        (0, np.float64, (3, 3)),
        (0, np.int8, (-1,)),
    ):
        with pytest.raises(ValueError, match="does not lie within a slot of 64 bytes"):
            SlotColumns(slots, [("a", offset, dtype, shape)])
    with pytest.raises(ValueError, match="cannot lie in a slot"):
        SlotColumns(slots, [("a", 0, object, ())])
    for nested in (None, SlotColumns(np.zeros((3, 64), np.uint8), [])):
        with pytest.raises((TypeError, ValueError)):
            SlotColumns(slots, [("a", nested)])


def test_a_worker_that_numbers_anew():
    slots = Slots()
    for _ in range(2):
        slots.step([(env, {"a": float(env)}) for env in range(4)])
    slots.parent.reset_worker(1)
    # Neither what its former worker left there nor what its numbers meant is of any use.
    infos = slots.parent.gather({}, None)
    assert infos["a"].tolist() == [0, 1, 0, 0]
    assert infos["_a"].tolist() == [True, True, False, False]
    slots.slots[2, :4].view(np.uint32)[0] = 1
    with pytest.raises(RuntimeError, match="environment 2 is corrupt"):
        slots.parent.gather({}, None)
    slots.writers[1] = SlotWriter(slots.slots[2:])
    for _ in range(2):
        slots.step([(env, {"a": 5.0} if env < 2 else {"b": env}) for env in range(4)])
    infos = slots.parent.gather({}, None)
    assert infos["a"].tolist() == [5, 5, 0, 0]
    assert infos["b"].tolist() == [0, 0, 2, 3]
    assert infos["_b"].tolist() == [False, False, True, True]
