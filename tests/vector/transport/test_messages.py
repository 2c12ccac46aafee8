"""What travels as a message between the parent and a worker comes back as what it was."""

import io
import pickle
import struct
import sys

import gymnasium as gym
import numpy as np
import pytest
from equality import outcome, value_bytes
from gymnasium.spaces import Discrete
from hypothesis import given, settings
from hypothesis import strategies as st
from lockstep import CustomSpace
from scripted import BOX, Scripted

from gymvec import AsyncVectorEnv
from gymvec.vector.transport.messages import MessageKind, dumps, join_parts, parts_of

pytestmark = pytest.mark.timeout(120)

ZEROS = np.zeros((2, 2), np.float32)


class Tagged(np.ndarray):
    """Keeps an attribute that a view of it does not have."""

    def __array_finalize__(self, source):
        self.tag = None

    def __reduce__(self):
        rebuild, args, state = super().__reduce__()
        return rebuild, args, (state, self.tag)

    def __setstate__(self, state):
        inner, self.tag = state
        super().__setstate__(inner)


class Own(np.ndarray):
    """Pickles in a way of its own, with an array inside."""

    def __reduce__(self):
        return _own, (np.asarray(self),)


def _own(array):
    return array.view(Own)


def tagged(array):
    array = array.view(Tagged)
    array.tag = "tag"
    return array


def masked(array):
    return np.ma.masked_array(array, np.arange(array.size).reshape(array.shape) % 2 == 0)


CLASSES = {
    "array": lambda array: array,
    "masked": masked,
    "masked without mask": np.ma.masked_array,
    "record": lambda array: array.view(np.recarray),
    "tagged": tagged,
    "own": lambda array: array.view(Own),
    "in a list": lambda array: [array, {"again": array}],
    "in an array of objects": lambda array: np.array([array, None], object),
    "beside a local class": lambda array: (array, type("Local", (), {})),
    "masked beside a local class": lambda array: (masked(array), type("Local", (), {})),
}
LAYOUTS = {
    "C": lambda array: array,
    "Fortran": np.asfortranarray,
    "every second": lambda array: np.repeat(array, 2, axis=-1)[..., ::2],
    "backwards": lambda array: array[..., ::-1],
    "axes swapped": lambda array: array.swapaxes(-1, 0),
    "broadcast": lambda array: np.broadcast_to(array, (2, *array.shape)),
    "number": lambda array: array.reshape(-1)[:1].reshape(()),
    "empty": lambda array: array[:0],
}
DTYPES = [
    *("?", "u1", "<i2", ">i2", ">u4", ">i8", ">f2", "<f4", ">f8", ">g", ">c8", ">c16"),
    *(">U3", "<U3", "S3", ">M8[s]", ">m8[ns]", "<M8[D]"),
    [("a", ">i4"), ("b", "<f8")],
    [("a", ">i2", (2,)), ("b", "O")],
    "O",
]


def build(kind, dtype, layout):
    dtype = np.dtype(dtype)
    numbers = np.arange(24).reshape(2, 3, 4)
    if dtype.names:
        array = np.zeros(numbers.shape, dtype)
        for name in dtype.names:
            array[name] = numbers[..., None] if dtype[name].shape else numbers
    else:
        array = numbers.astype(dtype)
    return CLASSES[kind](LAYOUTS[layout](array))


def assert_kept(actual, expected):
    """Class, dtype, byte order and values, whatever the layout."""
    assert type(actual) is type(expected)
    if isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_kept(one, other)
    elif isinstance(expected, dict):
        assert_kept(list(actual.items()), list(expected.items()))
    elif isinstance(expected, np.ndarray):
        assert actual.dtype == expected.dtype
        assert actual.dtype.descr == expected.dtype.descr
        assert actual.shape == expected.shape
        if isinstance(expected, np.ma.MaskedArray):
            assert_kept(np.ma.getmaskarray(actual), np.ma.getmaskarray(expected))
            assert_kept(actual.data, expected.data)
        elif expected.dtype.hasobject:
            assert_kept(np.asarray(actual).tolist(), np.asarray(expected).tolist())
        else:
            assert value_bytes(actual) == value_bytes(expected)
        if isinstance(expected, Tagged):
            assert actual.tag == expected.tag
    elif isinstance(expected, type):
        assert actual.__name__ == expected.__name__
    else:
        assert actual == expected


specs = st.tuples(
    st.sampled_from(list(CLASSES)), st.sampled_from(DTYPES), st.sampled_from(list(LAYOUTS))
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", CLASSES)
def test_arrays_keep_class_and_dtype(kind, dtype):
    for layout in LAYOUTS:
        value = build(kind, dtype, layout)
        if kind.endswith("local class"):
            actual, expected = pickle.loads(dumps(value))[0], value[0]
        else:
            actual, expected = pickle.loads(dumps(value)), value
        assert_kept(actual, expected)


def test_objects_that_are_met_twice_stay_one():
    array = build("tagged", ">i2", "every second")
    array.tag = [array]
    again = pickle.loads(dumps([array, array]))
    assert again[0] is again[1] is again[0].tag[0]
    assert again[0].dtype == ">i2"


class Builds(Scripted):
    """Its infos, and what it returns of calls, are built where it is."""

    def __init__(self, space=BOX):
        super().__init__(space, Discrete(2), length=1000)
        self.spec_of_value = None

    def reset(self, *, seed=None, options=None):
        observation, _ = super().reset(seed=seed)
        self.spec_of_value = options
        return observation, self.info()

    def step(self, action):
        return (*super().step(action)[:4], self.info())

    def info(self):
        return {"value": build(*self.spec_of_value["spec"])} if self.spec_of_value else {}

    def say(self, spec):
        return build(*spec)

    def compare(self, value, spec):
        assert_kept(value, build(*spec))


@pytest.fixture(scope="module")
def pair():
    fns = [Builds] * 2
    ours, theirs = AsyncVectorEnv(fns, num_workers=1), gym.vector.SyncVectorEnv(fns)
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@settings(max_examples=100, deadline=None)
@given(specs)
def test_infos_are_as_gymnasiums(pair, spec):
    ours, theirs = pair
    options = {"spec": spec}
    for actual, expected in (
        (outcome(ours.reset, options=options), outcome(theirs.reset, options=options)),
        (outcome(ours.step, [0, 1]), outcome(theirs.step, [0, 1])),
    ):
        assert type(actual.error) is type(expected.error)
        if expected.error is None:
            assert_kept(actual.result[-1], expected.result[-1])


# NumPy's default for masked values does not fit into a float16.
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@settings(max_examples=100, deadline=None)
@given(specs)
def test_calls_and_attributes(pair, spec):
    ours, _ = pair
    value = build(*spec)
    assert_kept(ours.call("say", spec), (value, value))
    ours.set_attr("attribute", [value] * 2)
    assert_kept(ours.get_attr("attribute"), (value, value))
    ours.call("compare", value, spec)


@pytest.mark.parametrize("spec", [("masked", ">i2", "C"), ("array", ">f8", "backwards")], ids=str)
def test_observations_and_errors(spec):
    class Shows(Scripted):
        def __init__(self):
            super().__init__(CustomSpace(), observe=lambda steps: build(*spec))

        def render(self):
            error = ValueError(build(*spec))
            error.value = build(*spec)
            raise error

    envs = AsyncVectorEnv([Shows], shared_memory=False)
    assert_kept(envs.reset()[0], (build(*spec),))
    with pytest.raises(ValueError) as caught:
        envs.render()
    assert_kept([*caught.value.args, caught.value.value], [build(*spec), build(*spec)])
    envs.close()


def a_file():
    return open(__file__)


UNKEPT = {"memoryview": lambda: memoryview(b"abc"), "TextIOWrapper": a_file}


@pytest.mark.parametrize("name", UNKEPT)
@pytest.mark.parametrize("beside", [None, lambda: None], ids=["plain", "local"])
def test_what_cannot_be_kept_is_an_error(name, beside):
    make = UNKEPT[name]

    class Holds(Scripted):
        value = None

        def reset(self, **kwargs):
            return super().reset(**kwargs)[0], {"value": self.say()} if self.value else {}

        def step(self, action):
            return (*super().step(action)[:4], {"value": self.say()})

        def say(self):
            self.value = self.value or [make(), beside]
            return self.value

    envs = AsyncVectorEnv([Holds] * 2, num_workers=1)
    text = f"environment 0 returned cannot be pickled: TypeError: cannot pickle '{name}' object"
    envs.reset()
    for call in (lambda: envs.step(ZEROS), envs.reset, lambda: envs.call("say")):
        with pytest.raises(RuntimeError, match=text):
            call()
    value = make()
    with pytest.raises(TypeError, match=f"cannot pickle '{name}' object"):
        envs.set_attr("value", [value, beside])
    with pytest.raises(TypeError, match=f"cannot pickle '{name}' object"):
        envs.reset(options={"value": [value, beside]})
    if isinstance(value, io.IOBase):
        value.close()
    envs.close()


def test_standard_streams_are_those_of_the_receiver(monkeypatch):
    monkeypatch.setattr(sys, "stderr", sys.__stderr__)
    assert pickle.loads(dumps([sys.stderr, lambda: None]))[0] is sys.stderr


# --- messages ----------------------------------------------------------------------------

parts = st.tuples(st.integers(0, 2**40), st.sampled_from(MessageKind), st.binary())


@given(st.lists(parts))
def test_parts_of_a_message(given_parts):
    assert list(parts_of(join_parts(given_parts))) == given_parts


@given(st.binary(max_size=200))
def test_what_is_no_message_has_an_end(raw):
    try:
        found = list(parts_of(raw))
    except (IndexError, struct.error):
        return
    assert sum(len(content) for _, _, content in found) <= len(raw)
