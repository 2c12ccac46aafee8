"""The batch of observations in the parent: blocks in the segment, and what came by message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.error import CustomSpaceError

from gymvec.utils import create_empty_array, create_shared_memory
from gymvec.vector.space_tree import (
    bind_gatherer,
    bind_reader,
    bind_stacker,
    blocks_of,
    is_array_leaf,
    leaves,
)
from gymvec.vector.transport.memory import Layout, Segment

__all__ = ["Observations", "check_shareable"]


def check_shareable(space: Space[Any]) -> None:
    """Check that a part of an observation can lie in shared memory, if it has parts.

    Raises:
        TypeError: All are Graph or Sequence, or a OneOf of such.
        ValueError: A custom space comes first among those that cannot.
    """
    refusal: Exception | None = None
    try:
        for _, leaf in leaves(space):
            if is_array_leaf(leaf):
                return
            try:
                create_shared_memory(leaf, n=1)
            except (CustomSpaceError, TypeError) as error:
                refusal = refusal or error
            else:
                return
        if isinstance(refusal, CustomSpaceError):
            raise ValueError(
                "Using `AsyncVector(..., shared_memory=True)` caused an error, you can disable "
                "this feature with `shared_memory=False` however this is slower."
            ) from refusal
        if refusal is not None:
            raise refusal
    finally:
        # The error's traceback keeps this frame, which would keep the error.
        del refusal


class Observations:
    """The latest observation of every environment.

    Where there are two sets of blocks, a call's observations go into the set that the last
    batch did not come from; so a batch that is not copied stays valid through the next call.

    Args:
        space: Observation space of a single environment.
        layout: What lies where in the segment.
        segment: The segment.
        num_envs: Number of environments.
        batch_size: Number of environments of a batch of :meth:`some`.

    Attributes:
        target: The set that observations go into now.
    """

    def __init__(
        self,
        space: Space[Any],
        layout: Layout,
        segment: Segment,
        num_envs: int,
        batch_size: int,
    ) -> None:
        self._space = space
        self._num_envs = num_envs
        self._shared = layout.observation_space is not None
        self.target = 0
        # The set in which each environment's latest observation lies.
        self._where = np.zeros(num_envs, np.int8)
        self._blocks: list[list[np.ndarray]] = []
        if self._shared:
            sets = layout.observation_blocks(segment)
            self._blocks = [blocks_of(space, blocks) for blocks in sets]
            self._reads = [bind_reader(space, blocks, num_envs) for blocks in sets]
            self._gathers = [bind_gatherer(space, blocks, batch_size) for blocks in sets]
            others = sum(not is_array_leaf(leaf) for _, leaf in leaves(space))
            self._others: list[list[Any]] = [[None] * num_envs for _ in range(others)]
        else:
            self._stack = bind_stacker(space, num_envs)
            self._stack_some = bind_stacker(space, batch_size)
            self._items: list[Any] = [None] * num_envs

    def initial(self) -> Any:
        """The batch before the first reset."""
        return create_empty_array(self._space, n=self._num_envs)

    def keep(self, env: int, others: list[Any]) -> None:
        """Take what came by message for one environment, in the order of the leaves."""
        if not self._shared:
            (self._items[env],) = others
            return
        for items, value in zip(self._others, others, strict=True):
            items[env] = value

    def written(self, envs: Iterable[int] | None) -> None:
        """Environments have put their observations into ``target``; None for all."""
        if envs is None:
            self._where.fill(self.target)
        else:
            self._where[list(envs)] = self.target

    def bound_batch(self, copy: bool) -> Callable[[], Any]:
        """A function that makes the batch; with ``copy`` the caller's own at every depth."""
        if not self._shared:
            return lambda: self._stack(self._items)
        if len(self._blocks) == 2:
            return lambda: self._alternating_batch(copy)
        return partial(self._reads[0], self._others, copy)

    def bound_batch_of_copies(self) -> Callable[[Sequence[np.ndarray]], Any]:
        """A function that makes the batch of copies of the blocks of the only set, in order."""
        if not self._shared or is_array_leaf(self._space):
            return itemgetter(0)
        return partial(self._reads[0], self._others, True)

    def _alternating_batch(self, copy: bool) -> Any:
        self._carry()
        return self._reads[self.target](self._others, copy)

    @property
    def next_target(self) -> int:
        """What ``target`` is to be once the batch was returned."""
        return 1 - self.target if len(self._blocks) == 2 else 0

    def sources(self) -> tuple[list[list[np.ndarray]], list[list[Any]]]:
        """Where the latest values are: for each set the blocks, and the items of other leaves.

        Without shared memory there are no sets, and the items are whole observations.
        """
        return self._blocks, self._others if self._shared else [self._items]

    def latest_set(self, env: int) -> int:
        """The set in which the latest observation of an environment lies."""
        return int(self._where[env])

    def _carry(self) -> None:
        """Copy the rows that are not in the target, such as those that a mask left out."""
        left = np.flatnonzero(self._where != self.target)
        if len(left) > 0:
            sources, targets = self._blocks[1 - self.target], self._blocks[self.target]
            for source, target in zip(sources, targets, strict=True):
                target[left] = source[left]
            self._where[left] = self.target

    def some(self, envs: np.ndarray) -> Any:
        """A batch of the environments ``envs``, an int64 array; the caller's own at every depth."""
        if self._shared:
            return self._gathers[self.target](self._others, envs)
        return self._stack_some([self._items[env] for env in envs])
