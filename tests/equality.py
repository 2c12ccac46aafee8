"""Equality to the bit, for values, spaces and whole outcomes of a call."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Space


def value_bytes(array):
    """The bytes of an array's values: NaN and signed zero count, padding does not."""
    array = np.asarray(array)
    raw = np.ascontiguousarray(array).tobytes()
    if array.dtype.type is np.longdouble and np.finfo(np.longdouble).nmant == 63:
        # The x87 format has ten bytes of value; what follows is whatever was there.
        rows = np.frombuffer(raw, np.uint8).reshape(-1, array.dtype.itemsize)
        big = array.dtype.byteorder == ">"
        return (rows[:, -10:] if big else rows[:, :10]).tobytes()
    return raw


def assert_same(actual, expected, path="value"):
    """Same type, structure, order of keys, dtype, byte order, layout and bits."""
    assert type(actual) is type(expected), f"{path}: {type(actual)} for {type(expected)}"
    if isinstance(expected, np.ndarray | np.generic):
        assert actual.dtype.str == expected.dtype.str, f"{path}: dtype {actual.dtype}"
        assert actual.shape == expected.shape, f"{path}: shape {actual.shape}"
        if expected.dtype.kind == "O":
            assert_same(actual.tolist(), expected.tolist(), path)
            return
        assert value_bytes(actual) == value_bytes(expected), f"{path}: {actual!r} {expected!r}"
        if isinstance(expected, np.ndarray):
            assert actual.flags.writeable == expected.flags.writeable, f"{path}: writeable"
            if expected.size > 1:
                assert actual.strides == expected.strides, f"{path}: strides {actual.strides}"
        if isinstance(expected, np.ma.MaskedArray):
            assert_same(np.ma.getmaskarray(actual), np.ma.getmaskarray(expected), f"{path}.mask")
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), f"{path}: keys {list(actual)}"
        for key in expected:
            assert_same(actual[key], expected[key], f"{path}[{key!r}]")
    elif isinstance(expected, tuple | list):
        assert len(actual) == len(expected), f"{path}: length {len(actual)}"
        for i, (one, other) in enumerate(zip(actual, expected, strict=True)):
            assert_same(one, other, f"{path}[{i}]")
    elif isinstance(expected, Space):
        assert_same_space(actual, expected, path)
    elif isinstance(expected, np.random.Generator):
        assert actual.bit_generator.state == expected.bit_generator.state, f"{path}: generator"
    elif isinstance(expected, float | complex):
        assert value_bytes(actual) == value_bytes(expected), f"{path}: {actual!r} {expected!r}"
    else:
        assert actual == expected, f"{path}: {actual!r} {expected!r}"


def assert_same_space(actual, expected, path="space"):
    """Same class and the same attributes, the generator's state included."""
    assert type(actual) is type(expected), f"{path}: {type(actual)} for {type(expected)}"
    assert list(vars(actual)) == list(vars(expected)), f"{path}: attributes {list(vars(actual))}"
    for name, value in vars(expected).items():
        assert_same(getattr(actual, name), value, f"{path}.{name}")


class Outcome(NamedTuple):
    """What a call did: its result, or its error, and the warnings on the way."""

    result: Any
    error: BaseException | None
    warnings: list


def outcome(function, *args, **kwargs):
    """Call a function and keep what it did."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result, error = function(*args, **kwargs), None
        except Exception as raised:
            result, error = None, raised
    return Outcome(result, error, [(w.category, str(w.message)) for w in caught])


def assert_same_outcome(actual, expected, text=True):
    """Same result, or the same error class and text; and the same warnings."""
    assert type(actual.error) is type(expected.error), f"{actual.error!r} {expected.error!r}"
    if text and expected.error is not None:
        assert str(actual.error) == str(expected.error)
    assert_same(actual.result, expected.result)
    assert actual.warnings == expected.warnings


def leaves(value):
    """The arrays of a nested value, in order."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in leaves(part)]
    if isinstance(value, tuple | list):
        return [leaf for part in value for leaf in leaves(part)]
    return []
