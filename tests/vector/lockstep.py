"""Two vector environments side by side: environments, and the comparison step by step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Space,
    Text,
    Tuple,
)
from gymnasium.vector import AutoresetMode
from spaces_zoo import discrete

MODES = tuple(AutoresetMode)


class CustomSpace(Space):
    """A space that no handler is registered for. Its samples are mutable."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(None, None, seed)

    def sample(self, mask: Any = None, probability: Any = None) -> list[int]:
        return [int(self.np_random.integers(100))]

    def contains(self, x: Any) -> bool:
        return isinstance(x, list)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CustomSpace)


ARRAY_LEAVES = {
    "box": lambda: Box(-1, 1, (3,), np.float32),
    "image": lambda: Box(0, 255, (5, 4, 3), np.uint8),
    "half": lambda: Box(-1, 1, (2, 2), np.float16),
    "big": lambda: Box(-1, 1, (3,), ">f8"),
    "number": lambda: Box(-1, 1, (), np.float64),
    "empty": lambda: Box(0, 9, (0,), np.int16),
    "discrete": lambda: Discrete(5, start=-2),
    "small": lambda: discrete(9, np.int8),
    "multi": lambda: MultiDiscrete([[2, 3], [4, 5]]),
    "binary": lambda: MultiBinary(4),
}
SHARED_LEAVES = {
    **ARRAY_LEAVES,
    "text": lambda: Text(5, min_length=0, charset="abé😀"),
    "one": lambda: OneOf([Discrete(3), Box(-1, 1, (2,), np.float32)]),
}
ALL_LEAVES = {
    **SHARED_LEAVES,
    "sequence": lambda: Sequence(Box(-1, 1, (2,), np.float32)),
    "stacked": lambda: Sequence(Discrete(4), stack=True),
    "graph": lambda: Graph(Box(-1, 1, (3,)), Discrete(3)),
    "custom": CustomSpace,
}


def nested(leaves: dict[str, Callable[[], Space]]) -> Space:
    """Each leaf alone, in a Tuple and in a Dict of a Tuple of a Dict."""
    return Dict(
        {
            "flat": Dict({name: make() for name, make in leaves.items()}),
            "row": Tuple([make() for make in leaves.values()]),
            "deep": Tuple([Dict({"down": Tuple([Dict({n: m() for n, m in leaves.items()})])})]),
            "void": Dict({"nothing": Tuple([])}),
        }
    )


class RandomEnv(gym.Env):
    """Samples of its observation space, random episode ends, and infos of every kind.

    The action comes back in the info, so that environments are seen to get the same one.
    """

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, observation_space: Space, action_space: Space) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.render_mode = "rgb_array"
        self.steps = 0
        self.pool: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        if seed is not None or not self.pool:
            self.observation_space.seed(int(self.np_random.integers(2**31)))
            # Sampling takes longer than everything else.
            self.pool = [self.observation_space.sample() for _ in range(5)]
        self.steps = 0
        return self.observe(), {"options": options, "start": True}

    def observe(self) -> Any:
        return self.pool[self.np_random.integers(len(self.pool))]

    def step(self, action: Any) -> Any:
        self.steps += 1
        draw = self.np_random.random()
        info = {"action": np.array(repr(action)), "steps": self.steps, "draw": draw}
        if draw < 0.5:
            info["sometimes"] = np.float32(draw)
            info["deep"] = {"level": {"draw": draw}, "text": str(draw)}
        if draw < 0.2:
            info["other"] = [self.steps]
            info["array"] = np.full((2, 2), draw)
        reward = (draw, np.float32(draw), int(10 * draw), np.array(draw))[self.steps % 4]
        return self.observe(), reward, draw < 0.1, np.bool_(draw > 0.9), info

    def render(self) -> np.ndarray:
        return np.full((2, 2, 3), self.steps, np.uint8)


def _cartpole() -> gym.Env:
    return gym.make("CartPole-v1")


def _half_cheetah() -> gym.Env:
    return gym.make("HalfCheetah-v5", max_episode_steps=40)


def _minigrid() -> gym.Env:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import minigrid  # noqa: F401
    return gym.make("MiniGrid-Empty-5x5-v0", max_steps=30)


def _nested_arrays() -> gym.Env:
    return RandomEnv(nested(ARRAY_LEAVES), Box(-1, 1, (2,), np.float32))


def _nested_shared() -> gym.Env:
    return RandomEnv(
        nested(SHARED_LEAVES), Dict({"a": Discrete(3), "b": Tuple([Box(-1, 1, (2,))])})
    )


def _nested_all() -> gym.Env:
    return RandomEnv(nested(ALL_LEAVES), Tuple([MultiBinary(2), Text(4)]))


def _one_leaf(name: str) -> Callable[[], gym.Env]:
    return lambda: RandomEnv(ALL_LEAVES[name](), Discrete(4))


ENVIRONMENTS = {
    "CartPole": _cartpole,
    "HalfCheetah": _half_cheetah,
    "MiniGrid": _minigrid,
    "nested arrays": _nested_arrays,
    "nested shared": _nested_shared,
    "nested all": _nested_all,
    **{f"one {name}": _one_leaf(name) for name in ALL_LEAVES},
}


def value_bytes(array: Any) -> bytes:
    """The bytes of an array's values, without the padding of the x87 format."""
    raw = np.ascontiguousarray(array)
    if raw.dtype.type is np.longdouble and np.finfo(np.longdouble).nmant == 63:
        return raw.reshape(-1).view(np.uint8).reshape(-1, raw.itemsize)[:, :10].tobytes()
    return raw.tobytes()


def assert_same(actual: Any, expected: Any, path: str = "value") -> None:
    """Same types, structure, dtypes and bits. The order of keys is not looked at."""
    assert type(actual) is type(expected), f"{path}: {type(actual)} for {type(expected)}"
    if isinstance(expected, (np.ndarray, np.generic)):
        assert actual.dtype.str == expected.dtype.str, f"{path}: dtype {actual.dtype}"
        assert actual.shape == expected.shape, f"{path}: shape {actual.shape}"
        if expected.dtype.hasobject:
            assert_same(actual.tolist(), expected.tolist(), path)
        else:
            assert value_bytes(actual) == value_bytes(expected), f"{path}: {actual!r} {expected!r}"
        if isinstance(expected, np.ma.MaskedArray):
            masks = np.ma.getmaskarray(actual), np.ma.getmaskarray(expected)
            assert_same(*masks, f"{path}.mask")
    elif isinstance(expected, dict):
        assert actual.keys() == expected.keys(), f"{path}: keys {sorted(map(repr, actual))}"
        for key in expected:
            assert_same(actual[key], expected[key], f"{path}[{key!r}]")
    elif isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected), f"{path}: length {len(actual)}"
        for i, (one, other) in enumerate(zip(actual, expected, strict=True)):
            assert_same(one, other, f"{path}[{i}]")
    elif isinstance(expected, (float, complex)):
        assert np.array(actual).tobytes() == np.array(expected).tobytes(), path
    else:
        assert actual is expected or actual == expected, f"{path}: {actual!r} {expected!r}"


def assert_lockstep(
    ours: gym.vector.VectorEnv, theirs: gym.vector.VectorEnv, steps: int, seed: int = 0
) -> None:
    """Step both with the same random actions and masked resets; everything must be equal.

    What environments with ``copy=True`` return is looked at again a few steps later. The
    environments are closed at the end.
    """
    rng = np.random.default_rng(seed)
    mode = theirs.metadata["autoreset_mode"]
    n = theirs.num_envs
    assert ours.metadata == theirs.metadata
    for name in ("observation_space", "action_space", "single_observation_space"):
        assert getattr(ours, name) == getattr(theirs, name)
    ours.action_space.seed(seed)
    kept: list[tuple[Any, Any]] = []

    def compare(actual: Any, expected: Any, what: str) -> None:
        assert_same(actual, expected, what)
        if theirs.copy:
            kept.append((actual, expected))
            if len(kept) > 3:
                assert_same(*kept.pop(0), f"{what}, later")

    compare(ours.reset(seed=seed), theirs.reset(seed=seed), "reset")
    for step in range(steps):
        actions = ours.action_space.sample()
        results = ours.step(actions), theirs.step(actions)
        compare(*results, f"step {step}")
        mask = results[1][2] | results[1][3]
        if mode is not AutoresetMode.DISABLED:
            mask = rng.random(n) < 0.5
            if rng.random() > 0.05:
                continue
        if mask.any():
            seeds = [int(s) for s in rng.integers(1000, size=n)] if rng.random() < 0.3 else None
            masked = [
                envs.reset(seed=seeds, options={"reset_mask": mask.copy(), "x": 1})
                for envs in (ours, theirs)
            ]
            compare(*masked, f"masked reset after step {step}")
    compare(ours.reset(), theirs.reset(), "last reset")
    assert_same(ours.np_random_seed, theirs.np_random_seed)
    ours.close()
    theirs.close()
