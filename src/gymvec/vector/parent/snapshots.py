"""The observations that the caller has seen last, apart from the segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Dict

from gymvec.utils import create_empty_array
from gymvec.vector.parent.observations import Observations
from gymvec.vector.space_tree import is_array_leaf, subspaces
from gymvec.vector.transport.messages import dumps

__all__ = ["Snapshots"]


class Snapshots:
    """Keeps the last observation of each environment that a call has returned.

    Rows of the segment do not: a worker may have died in the middle of writing one, and its
    answers may have been dropped.

    Args:
        observations: The latest observations.
        space: Observation space of a single environment.
        num_envs: Number of environments.
        shared: Whether observations go through shared memory.
    """

    def __init__(
        self, observations: Observations, space: Space[Any], num_envs: int, shared: bool
    ) -> None:
        self._observations = observations
        self._space = space
        self._shared = shared
        self._sets, self._others = observations.sources()
        self._rows = [block.copy() for block in self._sets[0]] if self._sets else []
        self._items = [list(items) for items in self._others]
        self._seen = np.zeros(num_envs, np.bool_)

    def note(self, envs: np.ndarray | None) -> None:
        """Environments were returned, each with what it wrote last; None for all."""
        some = slice(None) if envs is None else envs
        if self._rows:
            latest = self._observations.latest_set(0 if envs is None else int(envs[0]))
            for rows, block in zip(self._rows, self._sets[latest], strict=True):
                rows[some] = block[some]
        for items, others in zip(self._items, self._others, strict=True):
            if envs is None:
                items[:] = others
            else:
                for env in envs.tolist():
                    items[env] = others[env]
        self._seen[some] = True

    def restore(self, envs: Sequence[int]) -> None:
        """Make them the latest of environments again, whose worker is gone."""
        some = list(envs)
        if self._rows:
            for rows, block in zip(self._rows, self._sets[self._observations.target], strict=True):
                block[some] = rows[some]
            self._observations.written(some)
        for items, others in zip(self._items, self._others, strict=True):
            for env in some:
                others[env] = items[env]

    def pack(self, env: int) -> bytes:
        """The last observation of an environment, pickled; an empty one if there is none."""
        if not self._seen[env]:
            return dumps(create_empty_array(self._space, n=None))
        items = (items[env] for items in self._items)
        if not self._shared:
            return dumps(next(items))
        return dumps(_sample(self._space, (rows[env] for rows in self._rows), items))


def _sample(space: Space[Any], rows: Iterator[Any], items: Iterator[Any]) -> Any:
    """An observation of the values of its leaves, each kind in the order of the leaves."""
    if is_array_leaf(space):
        return next(rows)
    parts = subspaces(space)
    if parts is None:
        return next(items)
    values = {key: _sample(subspace, rows, items) for key, subspace in parts}
    return values if isinstance(space, Dict) else tuple(values.values())
