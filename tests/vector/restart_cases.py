"""What the tests of replaced workers share."""

import os
import signal

import numpy as np
import pytest
from async_envs import Acts
from gymnasium.vector import AutoresetMode

from gymvec import AsyncVectorEnv

NEXT, SAME, DISABLED = (mode.value for mode in AutoresetMode)
ZEROS = np.zeros((4, 2), np.float32)
LOST = [False, False, True, True]
WARNED = r"the worker of environments \[2, 3\] \(process \d+\) "


def make(act=None, at="", kind=Acts, n=4, **kwargs):
    """Four environments of two workers; the act is the third's."""
    own = {"num_workers": 2, "on_worker_death": "restart", **kwargs}
    return AsyncVectorEnv([lambda i=i: kind(act if i == 2 else None, at) for i in range(n)], **own)


def stepped(envs, steps=3):
    envs.reset(seed=5)
    for _ in range(steps):
        envs.step(ZEROS)
    return envs


def kill(envs, worker=1, how=signal.SIGKILL):
    os.kill(envs.processes[worker].pid, how)


def restarted(infos):
    return infos["worker_restarted"].tolist(), infos["_worker_restarted"].tolist()


def check_restart_at(envs, step, observations, rewards, terminations, truncations, infos):
    """Rows of a step, the fourth, in which the second worker is found dead."""
    same = envs.autoreset_mode is AutoresetMode.SAME_STEP
    last = step - 1
    assert observations[:, 0].tolist() == [step, step] + ([0, 0] if same else [last, last])
    assert rewards.tolist() == [1, 1, 0, 0]
    assert terminations.tolist() == [False] * 4
    assert truncations.tolist() == LOST
    assert restarted(infos) == (LOST, LOST)
    keys = {"worker_restarted", "_worker_restarted"}
    if same:
        assert infos["_final_obs"].tolist() == LOST
        assert infos["final_obs"][2].tolist() == infos["final_obs"][3].tolist() == [last, last]
        assert restarted(infos["final_info"]) == (LOST, LOST)
        keys |= {"final_obs", "_final_obs", "final_info", "_final_info"}
    assert set(infos) == keys


def check_life_after(envs, step):
    """The other environments go on; the new ones are reset as the mode says, and go on."""
    old = [[step + i, step + i] for i in (1, 2, 3)]
    new = [[0, 0], [1, 1], [2, 2]]
    if envs.autoreset_mode is AutoresetMode.SAME_STEP:
        new = [[1, 1], [2, 2], [3, 3]]
    elif envs.autoreset_mode is AutoresetMode.DISABLED:
        with pytest.raises(AssertionError, match="episodes are over"):
            envs.step(ZEROS)
        mask = np.array(LOST)
        observations, infos = envs.reset(options={"reset_mask": mask})
        assert observations[:, 0].tolist() == [step, step, 0, 0]
        assert infos == {}
        new = [[1, 1], [2, 2], [3, 3]]
    for before, after in zip(old, new, strict=True):
        observations, rewards, terminations, truncations, infos = envs.step(ZEROS)
        assert observations[:, 0].tolist() == observations[:, 1].tolist() == before + after
        assert rewards.tolist() == [1, 1, *[float(after != [0, 0])] * 2]
        assert not terminations.any() and not truncations.any()
        assert infos == {}
