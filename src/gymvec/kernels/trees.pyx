"""Writing a nested observation into the rows of its leaves."""

cimport cython
from cpython.dict cimport PyDict_CheckExact, PyDict_GetItemWithError
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject

from gymvec.kernels.rows cimport RowWriter

cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char* where) except *
    void Py_LeaveRecursiveCall() noexcept


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
