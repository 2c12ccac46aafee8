"""The one shared mapping of a vector environment: what lies where in it.

Regions begin at multiples of 64 bytes, so that no two writers share a cache line. In order:

* the header: control words, touched only by :mod:`gymvec.vector.transport.control`;
* for each worker a queue of such words, and the rewards, flags and messages of its slice, which
  only this worker writes;
* a block of observations for each array leaf, ``n`` rows that the workers write;
* a block of actions for each array leaf, ``n`` rows of eight bytes an element and one code an
  environment, which the parent writes;
* a slot for each environment's info.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
from collections.abc import Iterator
from multiprocessing import heap
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space

from gymvec.system.limits import memory_limit
from gymvec.system.signals import interrupts_held
from gymvec.vector.space_tree import blocks_of, is_array_leaf, leaves, shape_of, subspaces
from gymvec.vector.transport import control

__all__ = ["SLOT_BYTES", "ActionRegion", "Segment", "Layout", "Region", "WorkerSlice"]

# Seventeen lines of the cache: with a power of two all slots would share a few of its sets.
SLOT_BYTES = 1088

_ACTION_ELEMENT_BYTES = 8


class Region(NamedTuple):
    """An array in the segment."""

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype

    def view(self, segment: Segment) -> np.ndarray:
        """The array, on the segment's memory."""
        count = int(np.prod(self.shape))
        if count == 0:
            return np.empty(self.shape, self.dtype)
        flat = np.frombuffer(segment.buffer, self.dtype, count, self.offset)
        return flat.reshape(self.shape)


class ActionRegion(NamedTuple):
    """The rows of one array leaf of the actions, as bytes, and what each environment's are."""

    rows: Region
    codes: Region
    shape: tuple[int, ...]


class WorkerSlice(NamedTuple):
    """One worker's environments and what it writes besides observations."""

    start: int
    stop: int
    queue: int
    rewards: Region
    terminations: Region
    truncations: Region
    messages: Region

    @property
    def size(self) -> int:
        """Number of environments."""
        return self.stop - self.start


class Layout:
    """Offsets of every region, computed once by the parent and handed to the workers.

    Args:
        observation_space: Observation space of a single environment, or None where
            observations do not go through the segment.
        action_space: Action space of a single environment.
        num_envs: Number of environments.
        num_workers: Number of workers; each gets a contiguous slice.
        num_sets: How many sets of observation blocks there are.

    Attributes:
        size: Bytes of the segment.
        header: Offset of the parent's control words.
        slices: One a worker.
        observations: For each set, places in the structure of the observation space; None at
            other leaves.
        actions: Places of the array leaves of the action space, in order; None if some leaf
            is none.
        info_slots: Region of the packed infos.
    """

    observations: list[Any]
    actions: list[ActionRegion] | None

    def __init__(
        self,
        observation_space: Space[Any] | None,
        action_space: Space[Any],
        num_envs: int,
        num_workers: int,
        num_sets: int = 1,
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.num_envs = num_envs
        self.num_workers = num_workers
        self.size = 0
        self.header = self._reserve(control.header_size())
        self.slices = [self._slice(start, stop) for start, stop in self._bounds()]
        self.observations = [self._observation_places(observation_space) for _ in range(num_sets)]
        self.actions = self._action_places()
        self.info_slots = self._place((num_envs, SLOT_BYTES), np.uint8)

    def _bounds(self) -> Iterator[tuple[int, int]]:
        for worker in range(self.num_workers):
            yield (
                self.num_envs * worker // self.num_workers,
                self.num_envs * (worker + 1) // self.num_workers,
            )

    def _reserve(self, size: int) -> int:
        offset = self.size
        self.size += -(-size // control.LINE) * control.LINE
        return offset

    def _place(self, shape: tuple[int, ...], dtype: Any) -> Region:
        dtype = np.dtype(dtype)
        return Region(self._reserve(int(np.prod(shape)) * dtype.itemsize), shape, dtype)

    def _slice(self, start: int, stop: int) -> WorkerSlice:
        count = stop - start
        queue = self._reserve(control.queue_size(count))
        # Close together: each line that a worker has written costs the parent a fetch.
        rewards = Region(self._reserve(count * 11), (count,), np.dtype(np.float64))
        terminations, truncations, messages = (
            Region(rewards.offset + count * at, (count,), np.dtype(np.bool_)) for at in (8, 9, 10)
        )
        return WorkerSlice(start, stop, queue, rewards, terminations, truncations, messages)

    def _observation_places(self, space: Space[Any] | None) -> Any:
        if space is None:
            return None
        if is_array_leaf(space):
            return self._place((self.num_envs, *shape_of(space)), space.dtype)
        parts = subspaces(space)
        if parts is None:
            return None
        return {key: self._observation_places(subspace) for key, subspace in parts}

    def _action_places(self) -> list[ActionRegion] | None:
        spaces = [space for _, space in leaves(self.action_space)]
        if not all(is_array_leaf(space) for space in spaces):
            return None
        return [
            ActionRegion(
                rows=self._place(
                    (self.num_envs, int(np.prod(shape_of(space))) * _ACTION_ELEMENT_BYTES), np.uint8
                ),
                codes=self._place((self.num_envs,), np.uint8),
                shape=shape_of(space),
            )
            for space in spaces
        ]

    @property
    def queues(self) -> list[tuple[int, int]]:
        """Offset and number of environments of each worker's control words."""
        return [(part.queue, part.size) for part in self.slices]

    def copied_blocks(self, segment: Segment) -> list[np.ndarray]:
        """The blocks of observations, in the order of the leaves, where there is only one set."""
        if self.observation_space is None or len(self.observations) > 1:
            return []
        return blocks_of(self.observation_space, *self.observation_blocks(segment))

    def observation_blocks(self, segment: Segment) -> list[Any]:
        """For each set the blocks of the array leaves, in the structure of the observation space."""
        return [_views(places, segment) for places in self.observations]


def _views(places: Any, segment: Segment) -> Any:
    if isinstance(places, dict):
        return {key: _views(part, segment) for key, part in places.items()}
    return None if places is None else places.view(segment)


# Errors that say that there is too little of something.
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.ENOMEM, getattr(errno, "EDQUOT", errno.ENOSPC))
# Errors of file systems that cannot reserve pages; there is nothing better to do there.
_CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.EINVAL)


def _no_room(size: int, number: int, reason: str) -> OSError:
    return OSError(
        number,
        f"no room for {size} bytes of shared memory ({reason}): make /dev/shm or the temporary "
        "directory larger (docker run --shm-size), raise the limit, use fewer environments, or "
        "pass shared_memory=False",
    )


class Segment:
    """The mapping itself.

    The memory is released when the last array on it is gone. A child process that is not forked
    attaches to the mapping; see :meth:`reduction`.

    Args:
        size: Bytes.

    Raises:
        OSError: There is no room. Found here and not as a bus error in a later step.
    """

    def __init__(self, size: int) -> None:
        size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        limit = memory_limit()
        if limit is not None and size > limit:
            raise _no_room(size, errno.ENOMEM, f"the cgroup allows {limit} bytes of memory")
        try:
            # Ctrl-C would leave a file without an owner. Reserving takes long, and may be cut short.
            with interrupts_held():
                self._heap = heap.Arena(size)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._heap.fd, 0, size)
        except OSError as error:
            if error.errno in _CANNOT_RESERVE:
                return
            if error.errno not in _NO_ROOM:
                raise
            raise _no_room(size, int(error.errno or 0), str(error.strerror)) from error

    @property
    def buffer(self) -> Any:
        """The memory, writable."""
        return self._heap.buffer

    def reduction(self, reducer: Any) -> tuple[Any, ...]:
        """How a pickle of a process that is being started attaches to the mapping.

        Args:
            reducer: Module of reductions of the process's context, whose descriptors travel by
                other ways in other packages.

        Returns:
            A function and its arguments, as from ``__reduce__``.
        """
        if sys.platform == "win32":
            return _attach_by_name, (self._heap.size, self._heap.name)
        return _attach, (self._heap.size, reducer.DupFd(self._heap.fd))


def _attached(mapping: heap.Arena) -> Segment:
    segment = Segment.__new__(Segment)
    segment._heap = mapping
    return segment


def _attach(size: int, descriptor: Any) -> Segment:
    return _attached(heap.Arena(size, descriptor.detach()))


def _attach_by_name(size: int, name: str) -> Segment:
    mapping: Any = heap.Arena.__new__(heap.Arena)
    mapping.__setstate__((size, name))
    return _attached(mapping)
