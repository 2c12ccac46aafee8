"""What a type checker says of the public names. mypy reads this file; nothing runs it."""

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
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
from typing_extensions import assert_type

import gymvec
from gymvec.utils import batch_space, concatenate, create_shared_memory, iterate


# Where nothing is known of the subspaces, Dict[Any] fits more than one overload and gives Any.
def batched(
    kind: Space[Any], leaf: Box, text: Text, graph: Graph, mapping: Dict[Box | Discrete]
) -> None:
    assert_type(batch_space(leaf, 2), Box)
    assert_type(batch_space(Discrete(3), n=2), MultiDiscrete)
    assert_type(batch_space(MultiDiscrete([2, 3])), Box)
    assert_type(batch_space(MultiBinary(3), 2), Box)
    assert_type(batch_space(mapping, 2), Dict[Any])
    assert_type(batch_space(Tuple([leaf]), 2), Tuple[Any])
    assert_type(batch_space(OneOf([leaf]), 2), Tuple[Any])
    assert_type(batch_space(Sequence(leaf), 2), Tuple[Any])
    assert_type(batch_space(text, 2), Tuple[Any])
    assert_type(batch_space(graph, 2), Tuple[Any])
    assert_type(batch_space(kind, 2), Space[Any])


class Own(Space[int]):
    pass


@batch_space.register(Own)
def batch_own(space: Own, n: int = 1) -> Tuple[Any]:
    return Tuple([space] * n)


assert_type(batch_own(Own(), 2), Tuple[Any])


def wrong(leaf: Box) -> None:
    # An ignore that hides nothing is an error, so these must be wrong.
    batch_space(3)  # type: ignore[call-overload]
    batch_space(leaf, "2")  # type: ignore[call-overload]
    concatenate(leaf)  # type: ignore[call-arg]
    create_shared_memory(leaf, size=3)  # type: ignore[call-arg]
    for _ in iterate(leaf, 1, 2):  # type: ignore[call-arg]
        pass


def make() -> gym.Env[npt.NDArray[np.float32], int]:
    raise NotImplementedError


def vector_environments() -> None:
    envs: gymvec.SyncVectorEnv[npt.NDArray[np.float32], npt.NDArray[np.int64]]
    envs = gymvec.SyncVectorEnv([make])
    observations, infos = envs.reset(seed=[1])
    assert_type(observations, npt.NDArray[np.float32])
    assert_type(infos, dict[str, Any])
    _, rewards, terminations, truncations, _ = envs.step(np.zeros(1, np.int64))
    assert_type(rewards, npt.NDArray[np.float64])
    assert_type(terminations, npt.NDArray[np.bool_])
    assert_type(truncations, npt.NDArray[np.bool_])
    assert_type(envs.get_attr("name"), tuple[Any, ...])
    assert_type(gymvec.AsyncVectorEnv([make], num_workers=1).num_workers, int)
