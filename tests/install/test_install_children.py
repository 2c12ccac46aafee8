"""install in child processes, under each start method, through Gymnasium's own AsyncVectorEnv."""

import multiprocessing
import pickle
import subprocess
import sys
import textwrap

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AsyncVectorEnv
from gymnasium.vector.utils import CloudpickleWrapper

import gymvec

METHODS = multiprocessing.get_all_start_methods()


class Reporting(gymnasium.Env):
    """Tells which handlers its process uses."""

    observation_space = Dict(image=Box(0, 255, (4, 4), np.uint8), level=Discrete(9))
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action):
        observation = self._observe()
        terminated = bool(self.np_random.random() < 0.2)
        return observation, float(observation["level"]), terminated, False, {}

    def _observe(self):
        image = self.np_random.integers(0, 256, (4, 4), np.uint8)
        return {"image": image, "level": self.np_random.integers(9)}

    def report(self):
        return handlers_of_this_process()


def handlers_of_this_process():
    """The module of the handler that Gymnasium's function has for a Box."""
    return type(gymnasium.vector.utils.write_to_shared_memory.dispatch(Box)).__module__


def send_report(wrapper, pipe):
    pipe.send((wrapper()(), gymvec.installed()))


@pytest.fixture(autouse=True)
def uninstalled():
    yield
    gymvec.uninstall()


def trajectory(method):
    env = AsyncVectorEnv([Reporting] * 2, context=method)
    try:
        found = [env.reset(seed=3)[0]]
        rewards = []
        for _ in range(8):
            observation, reward, *_ = env.step(env.action_space.sample())
            found.append(observation)
            rewards.append(reward.tolist())
        arrays = [(step["image"].tolist(), step["level"].tolist()) for step in found]
        return env.call("report"), (arrays, rewards)
    finally:
        env.close()


@pytest.mark.parametrize("method", METHODS)
def test_children_are_installed_into(method):
    reports, without = trajectory(method)
    assert set(reports) == {"builtins"}
    gymvec.install()
    reports, with_gymvec = trajectory(method)
    assert set(reports) == {"gymvec.utils._dispatch"}
    assert with_gymvec == without
    gymvec.uninstall()
    reports, without_again = trajectory(method)
    assert set(reports) == {"builtins"} and without_again == without


def arriving(payload, method):
    """What the process of a wrapper pickled as ``payload`` looks like once it is unpickled."""
    context = multiprocessing.get_context(method)
    ours, childs = context.Pipe()
    child = context.Process(target=unpickle_and_report, args=(payload, childs))
    child.start()
    childs.close()
    found = ours.recv() if ours.poll(120) else None
    child.join()
    return found


def unpickle_and_report(payload, pipe):
    send_report(pickle.loads(payload), pipe)


@pytest.mark.parametrize("method", METHODS)
def test_pickles_outlive_install_and_uninstall(method):
    factory = CloudpickleWrapper(lambda: handlers_of_this_process)
    before = pickle.dumps(factory)
    gymvec.install()
    during = pickle.dumps(factory)
    inherits = method == "fork"
    installed = ("gymvec.utils._dispatch", True)
    assert arriving(before, method) == (installed if inherits else ("builtins", False))
    assert arriving(during, method) == installed
    gymvec.uninstall()
    # A fork has the parent's decision, a new interpreter the one that came with the pickle.
    assert arriving(during, method) == (("builtins", False) if inherits else installed)
    assert not gymvec.installed()


PROGRAM = """
    {first}
    import gymnasium
    from gymnasium.vector.utils import write_to_shared_memory

    class Walk(gymnasium.Env):
        observation_space = gymnasium.spaces.Dict(a=gymnasium.spaces.Box(-9, 9, (2,)))
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at = self.np_random.random(2, "float32")
            return {{"a": self.at}}, {{}}

        def step(self, action):
            self.at = self.at * (1, -0.5)[action]
            return {{"a": self.at}}, 1.0, False, False, {{}}

        def where(self):
            handler = write_to_shared_memory.dispatch(gymnasium.spaces.Box)
            return type(handler).__module__

    if __name__ == "__main__":
        factor = 2
        factories = [lambda: Walk() if factor else None] * 2
        env = gymnasium.vector.AsyncVectorEnv(factories, context={method!r})
        print(env.reset(seed=1)[0]["a"].tolist())
        print([env.step([0, 1])[0]["a"].tolist() for _ in range(3)])
        print(env.call("where"))
        env.close()
"""


@pytest.mark.parametrize("method", METHODS)
def test_program_with_install_as_its_first_line(method, tmp_path):
    results = []
    for first in ("", "import gymvec; gymvec.install()"):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(PROGRAM).format(first=first, method=method))
        done = subprocess.run(
            [sys.executable, path], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0 and done.stderr == ""
        results.append(done.stdout.splitlines())
    without, with_gymvec = results
    assert with_gymvec[:2] == without[:2]
    assert without[2] == "('builtins', 'builtins')"
    assert with_gymvec[2] == "('gymvec.utils._dispatch', 'gymvec.utils._dispatch')"


@pytest.mark.skipif("fork" not in METHODS, reason="needs os.fork")
def test_fork_during_an_installation():
    # Another thread is in the middle of it: the child must not wait for that thread.
    program = """
        import os, sys, threading, time
        import gymvec

        sys.setswitchinterval(1e-5)  # Otherwise a thread would finish what it has begun.
        stop = threading.Event()

        def change():
            while not stop.is_set():
                gymvec.install()
                gymvec.uninstall()
                time.sleep(0.001)  # A loop without a pause would keep the fork from the lock.

        threads = [threading.Thread(target=change) for _ in range(2)]
        for thread in threads:
            thread.start()
        ends = []
        for _ in range(50):
            child = os.fork()
            if child == 0:
                gymvec.install()
                os._exit(0 if gymvec.installed() else 1)
            ends.append(os.waitpid(child, 0)[1])
        stop.set()
        for thread in threads:
            thread.join()
        print(set(ends))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout == "{0}\n", done.stderr


def test_installed_by_a_plugin_while_gymnasium_is_being_imported():
    program = """
        import sys

        class Plugin:
            def find_spec(self, name, path=None, target=None):
                if name == "gymnasium.envs.registration":
                    sys.meta_path.remove(self)
                    import gymvec

                    gymvec.install()

        sys.meta_path.insert(0, Plugin())
        import gymnasium

        handler = gymnasium.vector.utils.batch_space.dispatch(gymnasium.spaces.Text)
        print(type(handler).__module__, len(gymnasium.vector.utils.batch_space(
            gymnasium.spaces.Text(3), n=2)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout == "gymvec.utils._dispatch 2\n", done.stderr
