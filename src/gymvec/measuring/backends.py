"""The ways to step many environments, each from the package it comes in.

A package is imported only in the process that measures it.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium.vector
import numpy as np
from gymnasium import Env

from gymvec.measuring.workloads import SEED, BareLoops, Stepped, action_batches
from gymvec.utils import batch_space, iterate
from gymvec.vector import AsyncVectorEnv, SyncVectorEnv

__all__ = ["BACKENDS", "LIMIT", "Backend", "Setting", "available"]


@dataclass(frozen=True)
class Setting:
    """What a backend has to step.

    Attributes:
        env_fn: Makes an environment.
        num_envs: How many.
        workers: Processes, or threads, for a backend that lets one choose.
        envpool_id: The id of the environment in EnvPool; None if it has none.
        vector_kwargs: Further arguments of gymvec's classes.
    """

    env_fn: Callable[[], Env[Any, Any]]
    num_envs: int
    workers: int
    envpool_id: str | None = None
    vector_kwargs: dict[str, Any] | None = None


@dataclass(frozen=True)
class Backend:
    """A way to step many environments.

    Attributes:
        key: What ``--backends`` calls it.
        name: What a table calls it.
        open: Builds and resets the environments.
        module: The module it needs; None for those that are always there.
        distribution: What to install for it.
        has_workers: Whether one chooses its number of processes or threads.
    """

    key: str
    name: str
    open: Callable[[Setting], Any]
    module: str | None = None
    distribution: str | None = None
    has_workers: bool = False

    @property
    def is_installed(self) -> bool:
        """Whether its package is there; importing it may fail all the same."""
        return self.module is None or importlib.util.find_spec(self.module) is not None


def available(envpool_id: str | None) -> list[Backend]:
    """The backends whose packages are installed.

    Args:
        envpool_id: The id of the environment in EnvPool. Without one EnvPool is left out.
    """
    return [
        backend
        for backend in BACKENDS.values()
        if backend.is_installed and (backend.key != "envpool" or envpool_id is not None)
    ]


def _bare_loops(setting: Setting) -> BareLoops:
    return BareLoops(setting.env_fn, setting.num_envs, setting.workers)


def _gymnasium_like(envs: Any, action_space: Any, num_envs: int) -> Stepped:
    envs.reset(seed=SEED)
    return Stepped(num_envs, envs.step, action_batches(action_space), envs.close)


def _of_functions(make: Callable[[Sequence[Any], Setting], Any], setting: Setting) -> Stepped:
    envs = make([setting.env_fn] * setting.num_envs, setting)
    return _gymnasium_like(envs, envs.action_space, setting.num_envs)


def _sb3_dummy(setting: Setting) -> Stepped:
    from stable_baselines3.common.vec_env import DummyVecEnv

    return _sb3(DummyVecEnv([setting.env_fn] * setting.num_envs), setting.num_envs)


def _sb3_subproc(setting: Setting) -> Stepped:
    from stable_baselines3.common.vec_env import SubprocVecEnv

    # By default each process imports PyTorch anew, which takes seconds; steps are the same.
    method = "fork" if sys.platform == "linux" else None
    envs = SubprocVecEnv([setting.env_fn] * setting.num_envs, start_method=method)
    return _sb3(envs, setting.num_envs)


def _sb3(envs: Any, num_envs: int) -> Stepped:
    envs.seed(SEED)
    envs.reset()
    batched = batch_space(envs.action_space, num_envs)
    batches = action_batches(batched)
    if not isinstance(batches[0], np.ndarray):
        batches = [list(iterate(batched, batch)) for batch in batches]
    return Stepped(num_envs, envs.step, batches, envs.close)


def _pufferlib(setting: Setting) -> Stepped:
    import pufferlib.emulation
    import pufferlib.vector

    n = setting.num_envs
    # Each worker has as many environments as any other.
    workers = max(w for w in range(1, min(n, setting.workers) + 1) if n % w == 0)
    envs = pufferlib.vector.make(
        functools.partial(pufferlib.emulation.GymnasiumPufferEnv, env_creator=setting.env_fn),
        backend=pufferlib.vector.Multiprocessing,
        num_envs=n,
        num_workers=workers,
        overwork=True,
    )
    envs.reset(seed=SEED)
    batches = action_batches(batch_space(envs.single_action_space, n))
    return Stepped(n, envs.step, batches, envs.close)


def _envpool(setting: Setting) -> Stepped:
    import envpool

    if setting.envpool_id not in envpool.list_all_envs():
        raise ValueError(f"EnvPool has no environment {setting.envpool_id!r}")
    envs = envpool.make(
        setting.envpool_id,
        env_type="gymnasium",
        num_envs=setting.num_envs,
        num_threads=min(setting.workers, setting.num_envs),
        seed=SEED,
    )
    envs.reset()
    batches = action_batches(batch_space(envs.action_space, setting.num_envs))
    return Stepped(setting.num_envs, envs.step, batches, envs.close)


def _supersuit(setting: Setting) -> Stepped:
    import supersuit

    # Its own concat_vec_envs_v1 takes environments of several agents.
    envs = supersuit.gym_vec_env_v0(setting.env_fn(), setting.num_envs, multiprocessing=True)
    return _gymnasium_like(envs, envs.action_space, setting.num_envs)


LIMIT = Backend("loops", "bare loops", _bare_loops)
_ALL = (
    LIMIT,
    Backend(
        "gymnasium-sync",
        "Gymnasium sync",
        functools.partial(_of_functions, lambda fns, _: gymnasium.vector.SyncVectorEnv(fns)),
    ),
    Backend(
        "gymnasium-async",
        "Gymnasium async",
        functools.partial(_of_functions, lambda fns, _: gymnasium.vector.AsyncVectorEnv(fns)),
    ),
    Backend(
        "gymvec-sync",
        "gymvec sync",
        functools.partial(
            _of_functions,
            lambda fns, setting: SyncVectorEnv(fns, **(setting.vector_kwargs or {})),
        ),
    ),
    Backend(
        "gymvec-async",
        "gymvec async",
        functools.partial(
            _of_functions,
            lambda fns, setting: AsyncVectorEnv(
                fns,
                **{
                    "num_workers": min(setting.workers, len(fns)),
                    **(setting.vector_kwargs or {}),
                },
            ),
        ),
        has_workers=True,
    ),
    Backend(
        "sb3-dummy",
        "SB3 DummyVecEnv",
        _sb3_dummy,
        "stable_baselines3",
        "stable-baselines3",
    ),
    Backend(
        "sb3-subproc",
        "SB3 SubprocVecEnv",
        _sb3_subproc,
        "stable_baselines3",
        "stable-baselines3",
    ),
    Backend(
        "pufferlib",
        "PufferLib Multiprocessing",
        _pufferlib,
        "pufferlib",
        "pufferlib",
        has_workers=True,
    ),
    Backend("supersuit", "SuperSuit", _supersuit, "supersuit", "supersuit"),
    Backend("envpool", "EnvPool", _envpool, "envpool", "envpool", has_workers=True),
)
BACKENDS = {backend.key: backend for backend in _ALL}
