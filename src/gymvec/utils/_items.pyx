"""Items of many environments by key: taking one key of all, and putting keys to them again."""

cimport cython
from cpython.dict cimport PyDict_CheckExact, PyDict_GetItemWithError
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE

from gymvec.kernels.capi cimport PyLong_AsLongLongAndOverflow


def gather_key(items not None, key):
    """``[item[key] for item in items]`` for a list or tuple of dicts or tuples."""
    cdef list values = []
    cdef PyObject* value
    cdef Py_ssize_t position = -1
    cdef int overflow = 0
    if PyLong_CheckExact(key):
        # -1 where it overflows: no position in a tuple, but perhaps a key of a dict.
        position = <Py_ssize_t>PyLong_AsLongLongAndOverflow(key, &overflow)
    for item in items:
        if PyDict_CheckExact(item):
            value = PyDict_GetItemWithError(item, key)
            if value is NULL:
                raise KeyError(key)
            values.append(<object>value)
        elif PyTuple_CheckExact(item) and 0 <= position < PyTuple_GET_SIZE(item):
            values.append(<object>PyTuple_GET_ITEM(item, position))
        else:
            values.append(item[key])
    return values


@cython.final
cdef class KeyedItems:
    """``dict(zip(parts, item))`` for each item of ``zip(*parts.values(), strict=True)``.

    Args:
        make_parts: Makes the dict of iterables, at the first item asked for. Where it is
            empty the iterator ends at once.
    """

    cdef object _make_parts
    cdef tuple _keys
    cdef list _parts
    cdef bint _running

    def __cinit__(self, make_parts):
        self._make_parts = make_parts

    def __iter__(self):
        return self

    def __next__(self):
        if self._running:
            raise ValueError("iterator already executing")
        self._running = True
        try:
            return self.next_item()
        except BaseException:
            # Ended for good, as a generator is: the parts may no longer be in step.
            self._parts = []
            raise
        finally:
            self._running = False

    cdef dict next_item(self):
        cdef Py_ssize_t i
        cdef dict item = {}
        cdef dict parts
        if self._parts is None:
            parts = self._make_parts()
            # As many keys as parts, also where making an iterator changes the dict.
            self._keys = tuple(parts)
            self._parts = [iter(part) for part in tuple(parts.values())]
        if len(self._parts) == 0:
            raise StopIteration
        for i in range(len(self._parts)):
            value = next(self._parts[i], ENDED)
            if value is ENDED:
                self.check_ended(i)
                raise StopIteration
            item[self._keys[i]] = value
        return item

    cdef int check_ended(self, Py_ssize_t first) except -1:
        """Part ``first`` has ended: so must all others, as zip says it."""
        cdef Py_ssize_t i
        if first > 0:
            raise ValueError(unequal(first, "shorter"))
        for i in range(1, len(self._parts)):
            for _ in self._parts[i]:
                raise ValueError(unequal(i, "longer"))
        return 0


cdef object ENDED = object()


cdef str unequal(Py_ssize_t i, str how):
    return f"zip() argument {i + 1} is {how} than argument{'s 1-' if i > 1 else ' '}{i}"
