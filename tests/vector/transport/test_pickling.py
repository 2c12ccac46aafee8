"""Workers that are started by the picklers and contexts of other packages."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading

import cloudpickle
import gymnasium as gym
import joblib
import multiprocess
import numpy as np
import pytest
from async_envs import alive, start_script, wait_until
from equality import assert_same
from joblib.externals.loky import get_reusable_executor
from scripted import BOX, Scripted

from gymvec import AsyncVectorEnv, WorkerDiedError

pytestmark = pytest.mark.timeout(120)

ZEROS = np.zeros((3, 2), np.float32)
CONTEXTS = {
    "dill fork": multiprocess.get_context("fork"),
    "dill spawn": multiprocess.get_context("spawn"),
    "dill forkserver": multiprocess.get_context("forkserver"),
    "loky": multiprocessing.get_context("loky"),
}
each_context = pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)


def played(kind, **kwargs):
    envs = kind([lambda: gym.make("CartPole-v1")] * 3, **kwargs)
    results = [envs.reset(seed=7)]
    for actions in ([1, 0, 1], [0, 0, 1], [1, 1, 1]):
        results.append(envs.step(np.array(actions)))
    envs.close()
    return results


# --- contexts and picklers of other packages --------------------------------------------


@each_context
@pytest.mark.parametrize("shared_memory", [True, False])
def test_contexts_of_other_packages(context, shared_memory):
    ours = played(AsyncVectorEnv, context=context, shared_memory=shared_memory, num_workers=2)
    assert_same(ours, played(gym.vector.SyncVectorEnv))


@pytest.mark.parametrize("shared_memory", [True, False])
def test_made_in_a_worker_of_joblib(shared_memory):
    def played_there():
        from gymvec import AsyncVectorEnv

        return played(AsyncVectorEnv, shared_memory=shared_memory, num_workers=2)

    played_there = cloudpickle.loads(cloudpickle.dumps(played_there))
    try:
        results = joblib.Parallel(2)([joblib.delayed(played_there)()] * 2)
    finally:
        get_reusable_executor().shutdown(wait=True)
    expected = played(gym.vector.SyncVectorEnv)
    # joblib itself hands arrays on as it likes.
    for ours in results:
        for actual, wanted in zip(ours, expected, strict=True):
            for one, other in zip(actual[:-1], wanted[:-1], strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", [pickle.Pickler, cloudpickle.Pickler])
def test_picklers_without_reductions_of_multiprocessing(kind, monkeypatch):
    monkeypatch.setattr(
        multiprocessing.reduction, "dump", lambda value, file: kind(file, 5).dump(value)
    )
    assert_same(
        played(AsyncVectorEnv, context="spawn", num_workers=2), played(gym.vector.SyncVectorEnv)
    )


def descriptors():
    """How many there are but those of memory, which the results of calls may keep."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += "/dev/shm" not in os.readlink(f"/proc/self/fd/{name}")
    return count


@each_context
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
def test_nothing_is_left(context):
    AsyncVectorEnv([Scripted], context=context).close()  # Trackers and fork servers stay.
    before = descriptors()
    for stops in (False, True):
        envs = AsyncVectorEnv([Scripted] * 3, context=context, num_workers=2)
        pids = [process.pid for process in envs.processes]
        envs.reset()
        if stops:
            os.kill(pids[1], signal.SIGSTOP)
        envs.close(timeout=0.1 if stops else None)
        assert not any(alive(pid) for pid in pids)
        assert envs.processes[1].exitcode == (-signal.SIGKILL if stops else 0)
        assert descriptors() == before
        envs.close()


@each_context
def test_a_worker_that_is_killed(context):
    envs = AsyncVectorEnv([Scripted] * 3, context=context, num_workers=2)
    envs.reset()
    os.kill(envs.processes[1].pid, signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match="SIGKILL") as caught:
        envs.step(ZEROS)
    assert caught.value.env_indices == [1, 2]
    envs.close()


@each_context
def test_a_worker_that_is_replaced(context):
    envs = AsyncVectorEnv([Scripted] * 3, context=context, num_workers=2, on_worker_death="restart")
    envs.reset()
    for _ in range(2):
        before = envs.processes[1].pid
        os.kill(before, signal.SIGKILL)
        with pytest.warns(UserWarning, match=r"environments \[1, 2\] .* was replaced"):
            assert envs.step(ZEROS)[3].tolist() == [False, True, True]
        assert (
            type(envs.processes[1]).__module__.split(".")[0]
            == (type(envs.processes[0]).__module__.split(".")[0])
        )
    pids = [process.pid for process in envs.processes]
    envs.close()
    assert not any(alive(pid) for pid in pids)


FORKED = """
import os, sys
import numpy as np
import multiprocess
from scripted import Scripted
from gymvec import AsyncVectorEnv

if __name__ == "__main__":
    context = multiprocess.get_context({method!r})
    envs = AsyncVectorEnv([Scripted] * 2, context=context, num_workers=2)
    envs.reset()
    pid = os.fork()
    if pid == 0:
        sys.exit(5)
    print(os.waitpid(pid, 0)[1] >> 8)
    print(envs.step(np.zeros((2, 2), np.float32))[1].tolist())
    envs.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_fork_that_ends_leaves_the_workers(tmp_path, method):
    program = start_script(tmp_path / "program.py", FORKED.format(method=method))
    out, error = program.communicate(timeout=60)
    assert (out, error) == ("5\n[1.0, 1.0]\n", "")


# --- functions that make environments ---------------------------------------------------


class Puts(Scripted):
    """Puts its number into a queue at each reset."""

    def __init__(self, queue, number):
        super().__init__()
        self.queue, self.number = queue, number

    def reset(self, **kwargs):
        self.queue.put(self.number)
        return super().reset(**kwargs)


def makers(queue, numbers):
    return [lambda number=number: Puts(queue, number) for number in numbers]


def close_queue(queue):
    for end in (queue._reader, queue._writer):
        end.close()


QUEUES = {
    **{name: CONTEXTS[name] for name in ("dill spawn", "dill forkserver", "loky")},
    "spawn": multiprocessing.get_context("spawn"),
    "forkserver": multiprocessing.get_context("forkserver"),
}


@pytest.mark.parametrize("context", QUEUES.values(), ids=QUEUES)
def test_queues_in_functions(context):
    queue = context.SimpleQueue()
    envs = AsyncVectorEnv(
        makers(queue, [3, 4, 5]),
        context=context,
        num_workers=2,
        observation_space=BOX,
        action_space=BOX,
    )
    envs.reset()
    assert sorted(queue.get() for _ in range(3)) == [3, 4, 5]
    envs.close()
    close_queue(queue)


@pytest.mark.parametrize("context", QUEUES.values(), ids=QUEUES)
def test_the_true_bad_index_is_named(context):
    """Queues travel while a process is started and at no other time; a lock never does."""
    queue, lock = context.SimpleQueue(), threading.Lock()
    fns = [*makers(queue, [0, 1]), lambda: Puts(lock, 2)]
    for workers in (1, 2):
        with pytest.raises(TypeError, match="function of environment 2 cannot be.*thread.lock"):
            AsyncVectorEnv(
                fns,
                context=context,
                num_workers=workers,
                observation_space=BOX,
                action_space=BOX,
            )
    close_queue(queue)


def test_queues_of_workers_that_may_be_replaced():
    """They are forked at first; the new ones are not."""
    queue, lock = multiprocessing.get_context("spawn").SimpleQueue(), threading.Lock()
    kwargs = dict(context="fork", num_workers=1, on_worker_death="restart")
    with pytest.raises(TypeError, match="function of environment 2 cannot be pickled.*lock"):
        AsyncVectorEnv([*makers(queue, [0, 1]), lambda: Puts(lock, 2)], **kwargs)
    envs = AsyncVectorEnv(makers(queue, [0, 1]), **kwargs)
    envs.reset()
    assert [queue.get(), queue.get()] == [0, 1]
    pid = envs.processes[0].pid
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not alive(pid), 10)
    with pytest.warns(UserWarning, match="was replaced"):
        envs.reset()
    assert [queue.get(), queue.get()] == [0, 1]
    envs.close()
    close_queue(queue)
