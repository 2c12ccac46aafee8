"""Nested values: a key of all environments' items, items by key, and observations into rows."""

cimport cython
from cpython.dict cimport PyDict_CheckExact, PyDict_GetItemWithError
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE

from gymvec.kernels.capi cimport PyLong_AsLongLongAndOverflow
from gymvec.kernels.rows cimport RowWriter

cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char* where) except *
    void Py_LeaveRecursiveCall() noexcept


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


@cython.final
cdef class TreeWriter:
    """Writes the parts of a dict or tuple into rows.

    Args:
        parts: Pairs of a key, or a position, and what takes the value under it: a
            :class:`gymvec.kernels.rows.RowWriter`, another tree writer, or None for a value that
            has no row and is handed back.
    """

    cdef list _keys
    cdef list _writers

    def __cinit__(self, parts):
        # Filled before anybody can hold this object, and never changed.
        self._keys = []
        self._writers = []
        for key, writer in parts:
            if not (writer is None or isinstance(writer, (RowWriter, TreeWriter))):
                raise TypeError(f"expected a writer or None for {key!r}, got {type(writer)}")
            self._keys.append(key)
            self._writers.append(writer)

    def __call__(self, value):
        """Write one observation.

        Returns:
            List of the values without a row, depth first.

        Raises:
            KeyError: A part is missing.
            ValueError: A part has another number of elements than its row.
        """
        cdef list rest = []
        self.put(value, rest)
        return rest

    cdef int put(self, object value, list rest) except -1:
        cdef Py_ssize_t i
        cdef PyObject* found
        cdef object part
        cdef bint is_dict = PyDict_CheckExact(value)
        for i in range(PyList_GET_SIZE(self._keys)):
            key = <object>PyList_GET_ITEM(self._keys, i)
            writer = <object>PyList_GET_ITEM(self._writers, i)
            if is_dict:
                found = PyDict_GetItemWithError(value, key)
                if found is NULL:
                    raise KeyError(key)
                part = <object>found
            else:
                part = value[key]
            if type(writer) is RowWriter:
                (<RowWriter>writer).put(part)
            elif writer is None:
                rest.append(part)
            else:
                # Writers that were made to be very deep.
                Py_EnterRecursiveCall(b" while writing an observation")
                try:
                    (<TreeWriter>writer).put(part, rest)
                finally:
                    Py_LeaveRecursiveCall()
        return 0
