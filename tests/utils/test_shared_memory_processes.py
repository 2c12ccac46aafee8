"""Shared memory written in real child processes, under every start method."""

import functools
import multiprocessing as mp
import os
import pickle
import subprocess
import sys

import gymnasium.vector.utils as theirs
import numpy as np
import pytest
import spaces_zoo as zoo
from equality import assert_same
from gymnasium.spaces import Box, Dict, Discrete, Text, Tuple

import gymvec.utils as ours

METHODS = [name for name in ("fork", "spawn", "forkserver") if name in mp.get_all_start_methods()]
# What Gymnasium cannot read back.
UNREADABLE = {"one of dict", "one of tuple", "one of deep"}

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def write_all(spaces, memories, values):
    """In the child: write every value, those of the second row twice."""
    for name, space in spaces.items():
        for index, value in enumerate(values[name]):
            ours.write_to_shared_memory(space, index, value, memories[name])


def run(method, target, *arguments):
    process = mp.get_context(method).Process(target=target, args=arguments)
    process.start()
    process.join(60)
    assert process.exitcode == 0


@pytest.mark.parametrize("method", METHODS)
def test_every_space(method):
    context = mp.get_context(method)
    spaces = {name: zoo.make(name) for name in zoo.SHAREABLE}
    values = {name: zoo.samples(space, 3) for name, space in spaces.items()}
    memories = {
        name: ours.create_shared_memory(space, 3, context) for name, space in spaces.items()
    }
    run(method, write_all, spaces, memories, values)
    for name, space in spaces.items():
        actual = ours.read_from_shared_memory(space, memories[name], 3)
        if name in UNREADABLE:
            assert_same(actual, tuple(values[name]))
            continue
        reference = theirs.create_shared_memory(space, 3)
        for index, value in enumerate(values[name]):
            theirs.write_to_shared_memory(space, index, value, reference)
        assert_same(actual, theirs.read_from_shared_memory(space, reference, 3), name)


LIMITS = {
    **{name: (np.iinfo(name).min, np.iinfo(name).max) for name in zoo.INTEGERS},
    **{name: (np.finfo(name).max, np.nan, -0.0) for name in zoo.FLOATS},
    "bool": (False, True),
    ">f4": (np.inf, -0.0),
    "<f4": (np.nan, -0.0),
    ">i8": (-(2**63), 2**63 - 1),
    ">f2": (np.nan, 6e-8),
}


@pytest.mark.parametrize("method", METHODS)
def test_every_dtype_at_its_limits(method):
    context = mp.get_context(method)
    spaces, values = {}, {}
    for dtype, numbers in LIMITS.items():
        for shape in ((), (0,), (2,)):
            spaces[dtype, shape] = Box(0, 1, shape, dtype)
            values[dtype, shape] = [np.full(shape, number, dtype) for number in numbers]
    memories = {
        name: ours.create_shared_memory(space, len(values[name]), context)
        for name, space in spaces.items()
    }
    run(method, write_all, spaces, memories, values)
    for name, space in spaces.items():
        actual = ours.read_from_shared_memory(space, memories[name], len(values[name]))
        assert_same(actual, np.array(values[name], space.dtype), str(name))


def step(space, index, memory, events):
    """In the child: write what the parent then sees through its view."""
    for value in (1, 2, 3):
        assert events.get(timeout=60) == value
        ours.write_to_shared_memory(space, index, {"a": value, "b": ("x" * value,)}, memory)
        events.task_done()


@pytest.mark.parametrize("method", METHODS)
def test_the_parents_views_follow(method):
    context = mp.get_context(method)
    space = Dict({"a": Discrete(9), "b": Tuple([Text(3)])})
    memory, events = ours.create_shared_memory(space, 2, context), context.JoinableQueue()
    view = ours.read_from_shared_memory(space, memory, 2)["a"]
    process = context.Process(target=step, args=(space, 1, memory, events))
    process.start()
    for value in (1, 2, 3):
        events.put(value)
        events.join()
        assert view.tolist() == [0, value]
        assert ours.read_from_shared_memory(space, memory, 2)["b"] == (("000", "x" * value),)
    process.join(60)
    assert process.exitcode == 0


def write_slice(space, memory, first):
    for index in range(first, first + 4):
        ours.write_to_shared_memory(space, index, np.full(5, index, np.float32), memory)


@pytest.mark.parametrize("method", METHODS)
def test_several_children(method):
    context = mp.get_context(method)
    space = Box(0, 99, (5,))
    memory = ours.create_shared_memory(space, 12, context)
    children = [
        context.Process(target=write_slice, args=(space, memory, first)) for first in (0, 4, 8)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    rows = ours.read_from_shared_memory(space, memory, 12)
    assert rows.tolist() == [[float(i)] * 5 for i in range(12)]


CODES = """
import sys, pickle
import gymvec.utils as u
from gymnasium.spaces import Text
spaces, texts = pickle.load(sys.stdin.buffer)
codes = []
for space, text in zip(spaces, texts):
    memory = u.create_shared_memory(space, 1)
    u.write_to_shared_memory(space, 0, text, memory)
    codes.append(memory[:])
print(codes)
"""


def test_text_codes_do_not_depend_on_the_hash_seed():
    spaces = [Text(6, charset=frozenset("zyxäß𝒳😀")), Text(6), Text(6, charset=frozenset("\0ab"))]
    texts = ["zyxäß😀", "Az09", "b\0a"]
    found = set()
    for seed in ("0", "1", "4711"):
        child = subprocess.run(
            [sys.executable, "-W", "error", "-c", CODES],
            input=pickle.dumps((spaces, texts)),
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        found.add(child.stdout)
    expected = []
    for space, text in zip(spaces, texts, strict=True):
        memory = theirs.create_shared_memory(space, 1)
        theirs.write_to_shared_memory(space, 0, text, memory)
        expected.append(memory[:])
    assert found == {f"{expected}\n".encode()}


def make_and_report(wrapper, queue):
    queue.put(wrapper())


@pytest.mark.parametrize("method", METHODS)
def test_a_wrapped_factory_in_a_child(method):
    context = mp.get_context(method)
    number = 42
    for factory in (lambda: number + 1, functools.partial(max, 3, 43)):
        queue = context.Queue()
        process = context.Process(
            target=make_and_report, args=(ours.CloudpickleWrapper(factory), queue)
        )
        process.start()
        assert queue.get(timeout=60) == 43
        process.join(60)
        assert process.exitcode == 0
