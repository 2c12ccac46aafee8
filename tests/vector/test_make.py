"""gymvec.make_vec: gymnasium.make_vec with gymvec's classes."""

import copy
import os
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec, VectorizeMode
from gymnasium.wrappers import TimeAwareObservation, TimeLimit
from lockstep import assert_same
from scripted import Scripted

import gymvec


@pytest.fixture(autouse=True)
def registry():
    before = copy.copy(gym.registry)
    gym.register("Scripted-v0", Scripted, kwargs={"length": 5}, max_episode_steps=4)
    gym.register("OnlyVector-v0", vector_entry_point=gymvec.SyncVectorEnv)
    yield
    gym.registry.clear()
    gym.registry.update(before)


def make(module, *args, **kwargs):
    envs = module.make_vec(*args, **kwargs)
    envs.close()
    return envs


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"num_envs": 3},
        {"num_envs": 2, "vectorization_mode": "sync"},
        {"vectorization_mode": VectorizeMode.SYNC, "length": 2},
        {"vector_kwargs": {"copy": False, "autoreset_mode": gymvec.AutoresetMode.SAME_STEP}},
        {"wrappers": (TimeAwareObservation, lambda env: TimeLimit(env, 2))},
        {"num_envs": 2, "max_episode_steps": 3},
    ],
)
def test_specs(kwargs):
    ours, theirs = (make(module, "Scripted-v0", **kwargs) for module in (gymvec, gym))
    assert type(ours) is gymvec.SyncVectorEnv
    assert ours.spec == theirs.spec
    assert repr(ours) == repr(theirs)
    for one, other in zip(ours.envs, theirs.envs, strict=True):
        assert repr(one).rpartition(" at ")[0] == repr(other).rpartition(" at ")[0]
        assert one.spec == other.spec
    again = make(gymvec, ours.spec)
    assert again.spec == ours.spec
    assert again.num_envs == ours.num_envs
    assert again.copy == ours.copy
    assert make(gym, ours.spec).spec == ours.spec


def test_the_arguments_stay_as_they_are():
    spec = gym.spec("Scripted-v0")
    before = copy.deepcopy(spec)
    vector_kwargs = {"copy": False}
    make(gymvec, spec, 2, vector_kwargs=vector_kwargs, length=9)
    assert spec == before
    assert vector_kwargs == {"copy": False}


@pytest.mark.parametrize("mode", [None, "vector_entry_point"])
def test_vector_entry_point(mode):
    ours, theirs = (
        make(module, "CartPole-v1", 2, mode, max_episode_steps=7) for module in (gymvec, gym)
    )
    assert type(ours) is type(theirs)
    assert ours.spec == theirs.spec


@pytest.mark.parametrize(
    ("id", "kwargs"),
    [
        ("Nothing-v0", {}),
        ("not an id", {}),
        (3, {}),
        ("Scripted-v0", {"vectorization_mode": "vector_entry_point"}),
        ("OnlyVector-v0", {"vectorization_mode": "sync"}),
        ("OnlyVector-v0", {"vectorization_mode": "async"}),
        ("CartPole-v1", {"vector_kwargs": {"copy": False}}),
        ("CartPole-v1", {"wrappers": [TimeLimit]}),
        ("Scripted-v0", {"vector_kwargs": {"other": 1}}),
        ("Scripted-v0", {"other": 1}),
        ("no_such_module:Scripted-v0", {}),
    ],
)
def test_errors(id, kwargs):
    errors = []
    for module in (gymvec, gym):
        with pytest.raises(Exception) as caught:
            module.make_vec(id, **kwargs)
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1])
    assert str(errors[0]) == str(errors[1])


@pytest.mark.parametrize("mode", ["other", "Async", "async ", "AUTO", 1])
@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.filterwarnings("ignore:.*came before `gymvec.install")
def test_an_unknown_mode(mode, installed):
    with pytest.raises(ValueError) as theirs:
        gym.make_vec("Scripted-v0", vectorization_mode=mode)
    wanted = f"{theirs.value} and 'auto'"
    assert wanted.startswith(f"Invalid vectorization mode: {mode!r}, valid modes: ['async', ")
    with gymvec.installation(vector_envs=installed), pytest.raises(ValueError) as ours:
        (gym if installed else gymvec).make_vec("Scripted-v0", vectorization_mode=mode)
    assert str(ours.value) == wanted


def test_a_spec_as_id():
    spec = EnvSpec("Mine-v0", entry_point=Scripted, kwargs={"num_envs": 2, "length": 3})
    ours, theirs = make(gymvec, spec), make(gym, spec)
    assert ours.num_envs == 2
    assert ours.spec == theirs.spec


def test_results():
    wrappers = (TimeAwareObservation,)
    ours, theirs = (
        module.make_vec("CartPole-v1", 3, "sync", wrappers=wrappers) for module in (gymvec, gym)
    )
    assert_same(ours.reset(seed=1), theirs.reset(seed=1))
    for _ in range(50):
        assert_same(ours.step(np.array([0, 1, 0])), theirs.step(np.array([0, 1, 0])))


MAIN = """
import gymnasium, gymvec
class Mine(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(3)
    def reset(self, *, seed=None, options=None): return 2, {}
    def step(self, action): return action, 1.0, False, False, {}
if __name__ == "__main__":
    gymnasium.register("Mine-v0", Mine)
    envs = gymvec.make_vec("Mine-v0", num_envs=2)
    print(envs.reset()[0].tolist(), envs.step([0, 1])[0].tolist())
"""


def python(*args):
    # Compiling the sources anew at each import would be measured too.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(
        [sys.executable, *args], capture_output=True, text=True, check=True, env=env
    ).stdout


def test_an_id_registered_in_main(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(MAIN)
    assert python(str(script)).splitlines()[-1] == "[2, 2] [0, 1]"


def test_import_time():
    code = (
        "import time; a = time.perf_counter(); import gymnasium.vector; b = time.perf_counter(); "
        "import gymvec; c = time.perf_counter(); print((c - b) / (b - a))"
    )
    # Gymnasium takes some 300 ms. Twice what is wanted, the best of some runs: the machine
    # may be busy.
    assert min(float(python("-c", code)) for _ in range(5)) < 0.2
