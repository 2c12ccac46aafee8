"""Actions on their way to the workers: through the segment, or one by one where they do not fit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from gymnasium import Space
from gymnasium.spaces import Dict

from gymvec.utils import iterate
from gymvec.vector.space_tree import is_builtin, subspaces
from gymvec.vector.transport.action_block import ActionBlock
from gymvec.vector.transport.memory import Layout, Segment

__all__ = ["bind_action_reader", "bind_action_writer", "split_actions"]

Write = Callable[[Any, Any], bool]
Read = Callable[[int], Any]


def _blocks(layout: Layout, segment: Segment) -> list[ActionBlock]:
    return [
        ActionBlock(place.rows.view(segment), place.codes.view(segment), place.shape)
        for place in layout.actions or ()
    ]


def bind_action_writer(layout: Layout, segment: Segment, action_space: Space[Any]) -> Write:
    """A function that puts a batch of actions into the segment.

    Args:
        layout: Where the action blocks lie.
        segment: The segment.
        action_space: The batched action space.

    Returns:
        Function of a batch and of the environments that it is for: a contiguous int64 array,
        or None for all. It returns whether all of it fits, so that each environment gets
        exactly what iterating over the batch would give it.
    """
    if layout.actions is None or not _iterates_plainly(layout.action_space, action_space):
        return lambda actions, envs: False
    return _writer(layout.action_space, iter(_blocks(layout, segment)))


def _iterates_plainly(single: Space[Any], batched: Space[Any]) -> bool:
    """Whether gymvec's own rules split the batch, at every depth."""
    if not is_builtin(iterate, batched):
        return False
    parts = subspaces(single)
    batches = subspaces(batched)
    if parts is None or batches is None:
        return parts is batches
    # A batch of nothing ends at once, however many environments there are.
    return 0 < len(parts) == len(batches) and all(
        _iterates_plainly(part, batch) for (_, part), (_, batch) in zip(parts, batches, strict=True)
    )


def _writer(space: Space[Any], blocks: Any) -> Write:
    parts = subspaces(space)
    if parts is None:
        block: ActionBlock = next(blocks)
        return block.put
    writers = [(key, _writer(subspace, blocks)) for key, subspace in parts]
    kinds = (dict,) if isinstance(space, Dict) else (tuple, list)

    def put(actions: Any, envs: Any) -> bool:
        if type(actions) not in kinds and not _is_plain(type(actions), kinds):
            return False
        try:
            return all([write(actions[key], envs) for key, write in writers])
        except LookupError:
            return False  # Splitting the batch one by one raises the error.

    return put


def _is_plain(kind: Any, kinds: tuple[Any, ...]) -> bool:
    """Whether taking a part out of a container runs no code of the caller's own.

    Such code may call the vector environment, which must not be in the middle of a call then.
    """
    return not hasattr(kind, "__missing__") and any(
        issubclass(kind, base) and kind.__getitem__ is base.__getitem__ for base in kinds
    )


def bind_action_reader(layout: Layout, segment: Segment) -> Read:
    """A function that makes the action of one environment, a new object, from the segment."""
    if layout.actions is None:
        return lambda index: None
    return _reader(layout.action_space, iter(_blocks(layout, segment)))


def _reader(space: Space[Any], blocks: Any) -> Read:
    parts = subspaces(space)
    if parts is None:
        block: ActionBlock = next(blocks)
        return block
    readers = [(key, _reader(subspace, blocks)) for key, subspace in parts]
    if isinstance(space, Dict):
        return lambda index: {key: read(index) for key, read in readers}
    return lambda index: tuple([read(index) for _, read in readers])


def split_actions(action_space: Space[Any], actions: Any, num_envs: int) -> list[Any]:
    """One action an environment, as iterating over the batch gives them.

    Raises:
        ValueError: There are not ``num_envs`` actions.
    """
    items = list(islice(iter(iterate(action_space, actions)), num_envs + 1))
    if len(items) != num_envs:
        more = " or more" if len(items) > num_envs else ""
        raise ValueError(
            f"expected {num_envs} actions, one for each environment, got {len(items)}{more}"
        )
    return items
