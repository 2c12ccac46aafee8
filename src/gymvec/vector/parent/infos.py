"""The parent's side of infos that lie in slots of the segment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gymvec.kernels.infos import gather_infos
from gymvec.kernels.rows import gather_rows
from gymvec.vector.transport.info_schemas import MAX_SCHEMAS, SlotColumns, same_schema
from gymvec.vector.transport.memory import SLOT_BYTES

__all__ = ["InfoBatchSlots", "InfoSlots"]

_HEADER_BYTES = 16

# What _slots.Schema.signature calls the kinds of values.
_INT, _FLOAT, _BOOL, _SCALAR, _ARRAY, _NESTED = range(6)
_PYTHON_TYPES = {_INT: int, _FLOAT: float, _BOOL: bool}


class SchemaMismatch(Exception):
    """Two schemas of a step have the same key with values of different types."""


class InfoSlots:
    """Makes Gymnasium's dict of arrays with masks out of the slots of all environments.

    Args:
        slots: uint8 array of shape ``(n, SLOT_BYTES)``, on the segment.
        workers: The worker of each environment.
    """

    def __init__(self, slots: np.ndarray, workers: list[int]) -> None:
        self._slots = slots
        self._workers = np.array(workers, dtype=np.int32)
        # The parent's number of each worker's schema; no schema is number 0 everywhere.
        self._table = np.full((self._workers.max() + 1, MAX_SCHEMAS + 1), -1, dtype=np.int32)
        self._table[:, 0] = 0
        self._numbers = np.zeros(len(slots), dtype=np.int32)
        self._views: list[_Views] = [_Views(slots, ())]
        self._known: dict[tuple[Any, ...], int] = {}

    def register_schema(self, env: int, number: int, signature: tuple[Any, ...]) -> None:
        """Take a new schema of the worker that has environment ``env``."""
        found = self._known.get(signature)
        if found is None:
            # So that it can be done again after an interrupt. Number 0 is no schema.
            number_here = len(self._known) + 1
            del self._views[number_here:]
            self._views.append(_Views(self._slots, signature))
            found = self._known[signature] = number_here
        self._table[self._workers[env], number] = found

    def reset_worker(self, worker: int) -> None:
        """A new worker, which numbers its schemas anew, is in the place of one that died."""
        self._slots[self._workers == worker] = 0
        self._table[worker, 1:] = -1

    def gather(
        self, messages: Mapping[int, list[dict[str, Any]]], envs: frozenset[int] | None
    ) -> dict[str, Any]:
        """The infos of a call.

        Args:
            messages: Infos that came by message, in the order in which they are to be added.
            envs: The environments of the call; None for all.

        Returns:
            What Gymnasium's ``_add_info`` makes of them, added in the order of environments.
        """
        if not self._known and not messages:
            return {}
        same = self._translate()
        if not messages and envs is None:
            if same == 0:
                return {}
            try:
                return self._views[same].everyones.infos() if same > 0 else self._by_schema()
            except SchemaMismatch:
                pass
        return gather_infos(self._items(messages, envs), len(self._numbers))

    def items(
        self, messages: Mapping[int, list[dict[str, Any]]], envs: frozenset[int] | None
    ) -> list[tuple[int, dict[str, Any]]]:
        """Each info of a call with its environment, in the order in which they are to be added.

        An environment whose info is empty is there, too.
        """
        self._translate()
        return self._items(messages, envs)

    def batches(self, size: int) -> InfoBatchSlots:
        """What gathers the infos of ``size`` environments at a time."""
        return InfoBatchSlots(self, size)

    def _translate(self) -> int:
        return same_schema(self._slots, self._table, self._workers, self._numbers)

    def _by_schema(self) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        for number in np.unique(self._numbers).tolist():
            if number != 0:
                self._views[number].add_rows(infos, np.flatnonzero(self._numbers == number))
        return infos

    def _items(
        self, messages: Mapping[int, list[dict[str, Any]]], envs: frozenset[int] | None
    ) -> list[tuple[int, dict[str, Any]]]:
        items = []
        for env, number in enumerate(self._numbers.tolist()):
            if envs is not None and env not in envs:
                continue
            if env in messages:
                items += [(env, info) for info in messages[env]]
            else:
                # Number 0 is an empty info.
                items.append((env, self._views[number].info(env)))
        return items


class InfoBatchSlots(InfoSlots):
    """Makes the infos of a batch of environments, numbered by their position in it.

    The slots of environments outside of the batch may be written meanwhile and are not read.

    Args:
        whole: The slots of all environments.
        size: Number of environments of a batch.
    """

    def __init__(self, whole: InfoSlots, size: int) -> None:
        super().__init__(np.zeros((size, SLOT_BYTES), np.uint8), [0] * size)
        self._whole = whole
        self._known = whole._known
        self._heads = np.ndarray(
            len(whole._slots), np.uint32, whole._slots.data, strides=whole._slots.strides[:1]
        )

    def load(self, envs: np.ndarray) -> None:
        """Take what lies in the slots of some environments, for :meth:`gather`.

        Args:
            envs: Contiguous int64 array of ``size`` environments.

        Raises:
            RuntimeError: A slot has a schema that is not known.
        """
        whole = self._whole
        numbers = self._heads[envs]
        if (numbers > MAX_SCHEMAS).any():
            raise RuntimeError(f"an info slot of environments {envs.tolist()} is corrupt")
        known = len(self._views) - 1
        if known < len(self._known):
            # The whole does not know its batches: references both ways would keep the segment.
            self._views += [_Views(self._slots, new) for new in [*self._known][known:]]
        self._numbers = whole._table[whole._workers[envs], numbers]
        if (self._numbers < 0).any():
            raise RuntimeError(f"an info slot of environments {envs.tolist()} is corrupt")
        if numbers.any():
            gather_rows(whole._slots, envs, self._slots)

    def _translate(self) -> int:
        first = self._numbers[0]
        return int(first) if (self._numbers == first).all() else -1


class _Views:
    """The values of one schema in all slots, as arrays on the slots.

    Attributes:
        end: The first byte of a slot after the values.
        everyones: Makes the infos where every environment has this schema.
    """

    def __init__(self, slots: np.ndarray, signature: tuple[Any, ...], start: int = 0) -> None:
        self._n = len(slots)
        self.end = start or _HEADER_BYTES
        self._columns: list[tuple[str, int, Any]] = []
        places: list[tuple[Any, ...]] = []
        for key, kind, content in signature:
            if kind == _NESTED:
                nested = _Views(slots, content, self.end)
                self.end = nested.end
                self._columns.append((key, kind, nested))
                places.append((key, nested.everyones))
                continue
            code, char, shape = content
            dtype = np.dtype(char).newbyteorder(code[0]) if code[0] in "<>" else np.dtype(char)
            offset = -(-self.end // dtype.alignment) * dtype.alignment
            row = np.empty(shape, dtype)
            view = np.ndarray(
                (self._n, *shape),
                dtype,
                slots.data,
                offset=offset,
                strides=(slots.strides[0], *row.strides),
            )
            self.end = offset + row.nbytes
            self._columns.append((key, kind, view))
            places.append((key, offset, dtype, shape))
        self.everyones: SlotColumns = SlotColumns(slots, places)

    def add_rows(self, infos: dict[str, Any], rows: np.ndarray) -> None:
        """Add the infos of some environments."""
        for key, kind, view in self._columns:
            mask_key = f"_{key}"
            if key not in infos:
                infos[key] = {} if kind == _NESTED else np.zeros(view.shape, view.dtype)
                infos[mask_key] = np.zeros(self._n, dtype=np.bool_)
            array = infos[key]
            if kind == _NESTED:
                if not isinstance(array, dict):
                    raise SchemaMismatch
                view.add_rows(array, rows)
            else:
                if (
                    isinstance(array, dict)
                    or array.dtype != view.dtype
                    or array.shape != view.shape
                ):
                    raise SchemaMismatch
                array[rows] = view[rows]
            infos[mask_key][rows] = True

    def info(self, env: int) -> dict[str, Any]:
        """The info of one environment as it was."""
        return {
            key: view.info(env) if kind == _NESTED else _value(kind, view[env])
            for key, kind, view in self._columns
        }


def _value(kind: int, value: Any) -> Any:
    if kind == _ARRAY:
        return np.array(value)
    return _PYTHON_TYPES[kind](value) if kind in _PYTHON_TYPES else value
