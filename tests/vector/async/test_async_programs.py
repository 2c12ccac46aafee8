"""Whole programs that use AsyncVectorEnv: how they end, and where their environments come from."""

import os
import signal
import sys
import time

import pytest
from async_envs import alive, read_line, start_script, wait_until

from gymvec.vector.transport.control import HAS_FUTEX

pytestmark = [
    pytest.mark.not_sanitized,
    pytest.mark.timeout(60),
    pytest.mark.skipif(sys.platform == "win32", reason="signals and process groups"),
]

BEGIN = """
import os, sys, time
import gymnasium as gym
import numpy as np
import gymvec
from async_envs import Acts, sleep
from scripted import Scripted

ZEROS = np.zeros((3, 2), np.float32)

def tell(envs):
    print(*[process.pid for process in envs.processes], flush=True)
"""


def pids_of(program):
    return [int(pid) for pid in read_line(program).split()]


def assert_ends(program, pids, seconds=20, code=0):
    """The program ends in time, in silence, and none of its workers is left."""
    out, err = program.communicate(timeout=seconds)
    assert err == "", err
    assert program.returncode == code
    assert wait_until(lambda: not any(map(alive, pids)), 3)
    return out


# --- exit -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "daemon"),
    [
        ("envs.step(ZEROS)", True),
        ("envs.step_async(ZEROS)", False),
        ("envs.call_async('nap', 60)", False),
        ("os.kill(envs.processes[0].pid, 19)", False),
        ("os.kill(envs.processes[0].pid, 9)", False),
        ("keep = [envs]; keep.append(keep); del envs", False),
        ("raise SystemExit(0)", False),
    ],
)
def test_exit_without_close(tmp_path, state, daemon):
    program = start_script(
        tmp_path / "program.py",
        f"{BEGIN}\nenvs = gymvec.AsyncVectorEnv([Acts] * 3, num_workers=2, daemon={daemon})\n"
        f"envs.reset()\ntell(envs)\n{state}\n",
    )
    assert_ends(program, pids_of(program))


def test_exit_while_a_thread_waits(tmp_path):
    program = start_script(
        tmp_path / "program.py",
        BEGIN
        + """
import threading
envs = gymvec.AsyncVectorEnv([Acts] * 3, num_workers=2)
envs.reset()
tell(envs)
envs.call_async("nap", 60)
threading.Thread(target=envs.call_wait, daemon=True).start()
time.sleep(0.3)
""",
    )
    pids = pids_of(program)
    program.communicate(timeout=20)
    assert wait_until(lambda: not any(map(alive, pids)), 3)


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_the_parent_is_killed_while_an_environment_sleeps(tmp_path, context):
    program = start_script(
        tmp_path / "program.py",
        BEGIN
        + f"""
if __name__ == "__main__":
    envs = gymvec.AsyncVectorEnv([Acts] * 3, num_workers=2, context="{context}")
    envs.reset()
    envs.set_attr("act", [sleep(60), None, None])
    envs.set_attr("at", "step")
    envs.step_async(ZEROS)
    tell(envs)
    envs.step_wait()
""",
    )
    pids = pids_of(program)
    assert len(pids) == 2
    assert all(map(alive, pids))
    program.kill()
    if not HAS_FUTEX:
        # Where there are no pidfds either, a parent that is dead but not reaped passes for alive.
        program.wait()
    killed = time.monotonic()
    assert wait_until(lambda: not any(map(alive, pids)), 3)
    # A second is the promise; a loaded machine needs more.
    assert time.monotonic() - killed < 3
    program.communicate()


# --- Ctrl-C -----------------------------------------------------------------------------

INTERRUPTED = """
if __name__ == "__main__":
    envs = gymvec.AsyncVectorEnv([Acts] * 3, num_workers=2, context={context!r})
    envs.reset()
    tell(envs)
    try:
        {call}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    {after}
    print("closed", flush=True)
"""


@pytest.mark.parametrize(
    ("call", "after", "context"),
    [
        ("envs.call('nap', 60)", "envs.close(timeout=0.1)", "spawn"),
        ("envs.call('nap', 1)", "assert envs.call_wait() == (1, 1, 1); envs.close()", "fork"),
        (
            "\n        while True: envs.step(ZEROS)",
            "\n    if envs._state.value == 'step': envs.step_wait()\n    envs.reset(); envs.close()",
            "fork",
        ),
    ],
)
def test_ctrl_c_while_waiting(tmp_path, call, after, context):
    program = start_script(
        tmp_path / "program.py",
        BEGIN + INTERRUPTED.format(call=call, after=after, context=context),
        start_new_session=True,
    )
    pids = pids_of(program)
    time.sleep(0.3)
    os.killpg(program.pid, signal.SIGINT)
    out, err = program.communicate(timeout=30)
    assert out.split() == ["interrupted", "closed"], out + err
    assert "Traceback" not in err
    assert program.returncode == 0
    assert wait_until(lambda: not any(map(alive, pids)), 3)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_ctrl_c_while_workers_start(tmp_path, context):
    """One KeyboardInterrupt, that of the parent."""
    program = start_script(
        tmp_path / "program.py",
        BEGIN
        + f"""
def slow():
    if os.getpid() != parent:
        time.sleep(1)
    return Scripted()

parent = os.getpid()
if __name__ == "__main__":
    print("begun", flush=True)
    try:
        envs = gymvec.AsyncVectorEnv([slow] * 3, num_workers=3, context="{context}")
    except KeyboardInterrupt:
        print("interrupted")
    else:
        raise RuntimeError("too late")
""",
        start_new_session=True,
    )
    read_line(program)
    time.sleep(0.2)
    os.killpg(program.pid, signal.SIGINT)
    out, err = program.communicate(timeout=30)
    assert (out, err) == ("interrupted\n", "")


# --- factories --------------------------------------------------------------------------

FACTORIES = """
import functools

class Own(Scripted):
    pass

class Wrapper(gym.Wrapper):
    pass

gym.register("Main-v0", entry_point=Own)
gym.register("Named-v0", entry_point="scripted:Scripted")

def named(number):
    return Own(reward=number)

if __name__ == "__main__":
    class Guarded(Scripted):
        pass

    gym.register("Guarded-v0", entry_point=Guarded, max_episode_steps=5)
    gym.register("GuardedName-v0", entry_point="scripted:Scripted", kwargs=dict(reward=5.0))
    data = [1.0, 2.0]
    factories = [
        Own,
        lambda: Own(reward=data[1]),
        functools.partial(named, 3.0),
        functools.partial(named, number=4.0),
        lambda: gym.make("Main-v0"),
        lambda: gym.make("Named-v0"),
        lambda: gym.make("Guarded-v0"),
        lambda: gym.make("GuardedName-v0"),
        lambda: Wrapper(Guarded()),
        functools.partial(gym.make, "Guarded-v0", disable_env_checker=True),
    ]
    envs = gymvec.AsyncVectorEnv(factories, num_workers=3, context={context!r})
    tell(envs)
    envs.reset()
    print(envs.step(np.zeros((len(factories), 2), np.float32))[1].tolist())
    print(envs.get_attr("spec")[6].id)
    envs.close()
"""


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_factories_of_a_program(tmp_path, context):
    program = start_script(
        tmp_path / "program.py", BEGIN + FACTORIES.replace("{context!r}", repr(context))
    )
    out = assert_ends(program, pids_of(program), 30)
    assert out.splitlines() == [
        str([1.0, 2.0, 3.0, 4.0, 1.0, 1.0, 1.0, 5.0, 1.0, 1.0]),
        "Guarded-v0",
    ]


REGISTERED = """
import gymnasium.vector.utils as theirs
from gymnasium.spaces import Box, Dict

class Ragged(Box):
    pass

class Rows(Scripted):
    def __init__(self):
        space = Dict({"plain": Box(-9, 9, (2,)), "ragged": Ragged(-9, 9, (2,))})
        super().__init__(
            space, observe=lambda steps: {"plain": np.full(2, steps), "ragged": [1.0] * steps}
        )

if __name__ == "__main__":
    theirs.concatenate.register(Ragged)(
        lambda space, items, out: {"rows": [row for item in items for row in item]}
    )
    theirs.create_empty_array.register(Ragged)(lambda space, n=1, fn=np.zeros: {"rows": []})
    print(gym.vector.SyncVectorEnv([Rows] * 3).reset()[0]["ragged"])
    envs = gymvec.AsyncVectorEnv([Rows] * 3, num_workers=2, context={context!r})
    tell(envs)
    print(envs.observations["ragged"], envs.reset()[0]["ragged"])
    observation = envs.step(ZEROS)[0]
    print(observation["plain"].tolist(), observation["ragged"])
    envs.close()
"""


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_handlers_that_the_workers_do_not_have(tmp_path, context):
    """Registered under the guard; the batch that they make is no sequence of one value each."""
    program = start_script(
        tmp_path / "program.py", BEGIN + REGISTERED.replace("{context!r}", repr(context))
    )
    assert read_line(program) == "{'rows': []}\n"
    assert assert_ends(program, pids_of(program), 30).splitlines() == [
        "{'rows': []} {'rows': []}",
        "[[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]] {'rows': [1.0, 1.0, 1.0]}",
    ]
