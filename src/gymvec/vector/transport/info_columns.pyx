"""The values of one schema in the info slots of all environments, copied into new arrays."""

cimport cython
cimport numpy as cnp
from libc.string cimport memcpy, memset

from gymvec.kernels.capi cimport empty_array

import numpy as np

cnp.import_array()


cdef class Column:
    cdef str key
    cdef str mask_key
    cdef SlotColumns nested
    cdef cnp.dtype descr
    cdef Py_ssize_t offset
    cdef size_t nbytes
    cdef int ndim
    cdef cnp.npy_intp[cnp.NPY_MAXDIMS] dims


@cython.final
cdef class SlotColumns:
    """Where the values of a schema lie in each slot.

    Args:
        slots: C-contiguous uint8 array of shape ``(n, size)``; it is kept alive.
        columns: For each key of the schema, in order, ``(key, offset, dtype, shape)`` for a value
            in the bytes from ``offset`` of a slot, or ``(key, SlotColumns)`` for a nested info.

    Raises:
        ValueError: ``slots`` is another kind of array, or a value does not lie within a slot.
    """

    cdef object _slots
    cdef const char* _data
    cdef cnp.npy_intp _n
    cdef Py_ssize_t _size
    cdef list _columns

    def __cinit__(self, slots, columns):
        if (
            type(slots) is not np.ndarray or slots.ndim != 2 or slots.dtype != np.uint8
            or not slots.flags.c_contiguous
        ):
            raise ValueError("expected slots as a contiguous uint8 array of shape (n, size)")
        self._columns = []
        self._slots = slots.view()
        self._n, self._size = slots.shape
        self._data = <const char*>cnp.PyArray_DATA(<cnp.ndarray>self._slots)
        for key, *place in columns:
            self._columns.append(self.placed(key, place))

    cdef Column placed(self, str key, list place):
        cdef Column column = Column.__new__(Column)
        cdef int i
        column.key = key
        column.mask_key = f"_{key}"
        if len(place) == 1:
            column.nested = place[0]
            if column.nested is None or column.nested._n != self._n:
                raise ValueError(f"expected columns of {self._n} slots for {key!r}")
            return column
        offset, dtype, shape = place
        column.descr = np.dtype(dtype)
        if column.descr.hasobject or len(shape) >= cnp.NPY_MAXDIMS:
            raise ValueError(f"{key!r} cannot lie in a slot: {dtype}, {shape}")
        nbytes = column.descr.itemsize
        column.dims[0] = self._n
        for i in range(len(shape)):
            column.dims[i + 1] = shape[i]
            nbytes *= shape[i]
        column.ndim = len(shape) + 1
        if offset < 0 or nbytes < 0 or offset + nbytes > self._size:
            raise ValueError(f"{key!r} does not lie within a slot of {self._size} bytes")
        column.offset = offset
        column.nbytes = nbytes
        return column

    def infos(self):
        """The infos where every environment's has this schema.

        Returns:
            A new dict with, for each key, a new array of shape ``(n, *shape)`` or a dict, and
            a bool array of shape ``(n,)`` that is True, as Gymnasium's ``_add_info`` makes them.
        """
        cdef Column column
        cdef dict infos = {}
        for column in self._columns:
            if column.nested is not None:
                infos[column.key] = column.nested.infos()
            else:
                infos[column.key] = self.copied(column)
            mask = cnp.PyArray_EMPTY(1, &self._n, cnp.NPY_BOOL, 0)
            memset(cnp.PyArray_DATA(<cnp.ndarray>mask), 1, <size_t>self._n)
            infos[column.mask_key] = mask
        return infos

    cdef object copied(self, Column column):
        cdef cnp.npy_intp i
        cdef const char* source = self._data + column.offset
        cdef char* target
        array = empty_array(column.ndim, column.dims, column.descr)
        target = <char*>cnp.PyArray_DATA(<cnp.ndarray>array)
        if column.nbytes == sizeof(double):
            for i in range(self._n):
                memcpy(target + i * <Py_ssize_t>sizeof(double), source + i * self._size,
                       sizeof(double))
        else:
            for i in range(self._n):
                memcpy(target + i * <Py_ssize_t>column.nbytes, source + i * self._size,
                       column.nbytes)
        return array
