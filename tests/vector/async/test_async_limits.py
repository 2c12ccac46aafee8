"""AsyncVectorEnv with much to send, many steps and many rounds; nothing waits or grows."""

import gc
import os
import sys

import numpy as np
import psutil
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Text
from scripted import BOX, Scripted

from gymvec import AsyncVectorEnv

pytestmark = [pytest.mark.not_sanitized, pytest.mark.timeout(60)]

MANY = 3_000_000
ZEROS = np.zeros((4, 2), np.float32)


class Large(Scripted):
    """Its infos and what it says have many megabytes."""

    def step(self, action):
        return (*super().step(action)[:4], {"large": np.full(MANY, self.steps, np.float64)})

    def echo(self, array):
        return array + 1


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("workers", [1, 2])
def test_full_pipes_in_both_directions(workers, context):
    envs = AsyncVectorEnv([Large] * 2, num_workers=workers, context=context)
    envs.reset()
    for step in range(1, 3):
        large = envs.step(ZEROS[:2])[4]["large"]
        assert large.shape == (2, MANY)
        assert large[0, 0] == large[1, -1] == step
    for result in envs.call("echo", np.arange(MANY)):
        assert result[[0, -1]].tolist() == [1, MANY]
    # Each sends a large answer while the other side sends a large question.
    envs.step_async(ZEROS[:2])
    envs.step_wait()
    envs.set_attr("big", np.zeros(MANY))
    assert [array.shape for array in envs.get_attr("big")] == [(MANY,)] * 2
    envs.close()


def test_large_actions_by_message():
    space = Dict({"text": Text(4), "box": Box(-1, 1, (1_000_000,), np.float64)})
    envs = AsyncVectorEnv([lambda: Scripted(action_space=space)] * 3, num_workers=2)
    envs.reset()
    batch = {"text": ("a", "b", "c"), "box": np.arange(3e6).reshape(3, -1)}
    for _ in range(2):
        envs.step(batch)
    envs.set_attr("observe", lambda steps: np.zeros(2))
    for i, actions in enumerate(envs.get_attr("actions")):
        assert len(actions) == 2
        assert actions[1]["box"][[0, -1]].tolist() == [i * 1e6, (i + 1) * 1e6 - 1]
    envs.close()


def test_large_observations_of_many_environments():
    shape = (300, 400, 3)
    envs = AsyncVectorEnv(
        [
            lambda: Scripted(
                Box(0, 255, shape, np.uint8), observe=lambda s: np.full(shape, s, np.uint8)
            )
        ]
        * 9,
        num_workers=3,
        copy=False,
    )
    envs.reset()
    assert envs.step(np.zeros((9, 2)))[0].sum() == np.prod(shape) * 9
    envs.close()


@pytest.fixture
def no_collector():
    """Whatever is given back is given back without it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def usage():
    process = psutil.Process()
    return process.memory_info().rss, process.num_fds() if sys.platform != "win32" else 0


def total(envs):
    return sum(psutil.Process(process.pid).memory_info().rss for process in envs.processes)


@pytest.mark.long
@pytest.mark.leaks
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("messages", "steps"), [(False, 100_000), (True, 5_000)])
def test_many_steps_take_no_memory(messages, steps, no_collector):
    space = Dict({"n": Discrete(5000), "t": Text(9)} if messages else {"n": Discrete(5000)})
    envs = AsyncVectorEnv(
        [
            lambda: Scripted(
                space,
                observe=lambda steps: {"n": steps, "t": str(steps)},
                length=7,
            )
        ]
        * 4,
        num_workers=2,
    )
    envs.call("__setattr__", "actions", Forgets())
    envs.call("__setattr__", "resets", Forgets())
    envs.reset()
    for step in range(steps):
        envs.step(ZEROS)
        if step == 500:
            before = (*usage(), total(envs))
    after = (*usage(), total(envs))
    assert after[1] == before[1]
    assert after[0] - before[0] < 2_000_000
    assert after[2] - before[2] < 2_000_000
    envs.close()


class Forgets(list):
    def append(self, item):
        pass


@pytest.mark.long
@pytest.mark.leaks
@pytest.mark.timeout(240)
def test_many_rounds_leave_nothing(no_collector):
    def round_of_all(i):
        envs = AsyncVectorEnv([Scripted] * 2, i % 2 == 0, num_workers=2)
        envs.reset()
        envs.step(ZEROS[:2])
        if i % 3:
            envs.close(terminate=i % 3 == 1)

    for i in range(6):
        round_of_all(i)
    memory, files = usage()
    children = psutil.Process().children()
    for i in range(200):
        round_of_all(i)
    assert usage()[1] == files
    assert usage()[0] - memory < 4_000_000
    assert psutil.Process().children() == children


@pytest.mark.leaks
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("copy", [True, False])
def test_close_lets_go_of_the_segment_and_of_descriptors(copy, context, no_collector):
    def mapped():
        with open("/proc/self/maps") as file:
            return sum("pym-" in line for line in file)

    def opened():
        names = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        return sorted(os.readlink(name) for name in names if os.path.islink(name))

    # The start method's own helpers stay.
    AsyncVectorEnv([Scripted], context=context).close()
    before, files = mapped(), opened()
    envs = AsyncVectorEnv([lambda: Scripted(BOX)] * 2, copy=copy, context=context)
    observations, _ = envs.reset()
    envs.step(ZEROS[:2])
    assert mapped() == before + 1
    envs.close()
    if not copy:
        assert mapped() == before + 1
        # The step wrote the other of the two sets of blocks.
        assert observations.tolist() == [[0, 0]] * 2
        del observations
    assert mapped() == before
    assert opened() == files
    assert [process.exitcode for process in envs.processes] == [0] * envs.num_workers
