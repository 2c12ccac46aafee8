"""Gathering the infos of sub-environments into arrays with masks.

What is built equals Gymnasium's ``VectorEnv._add_info`` applied in the order of the calls,
its odd truncations included. Gymnasium looks each array up again and makes a new mask for
every environment and key; here a column remembers where the array and the mask of a key lie.
"""

cimport cython
cimport numpy as cnp
from cpython.dict cimport PyDict_Check, PyDict_CheckExact, PyDict_GetItemWithError
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_CheckExact

from gymvec.kernels.arrays cimport WRITE, is_array, is_contiguous
from gymvec.kernels.rows cimport describe_row, npy_intp, put_row

import numpy as np

cnp.import_array()

cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char* where) except *
    void Py_LeaveRecursiveCall() noexcept

cdef int INT_TYPE = np.dtype(int).num


cdef cnp.ndarray zeros(Py_ssize_t n, int type_num):
    cdef npy_intp length = n
    return cnp.PyArray_ZEROS(1, &length, type_num, 0)


cdef cnp.ndarray nothings(Py_ssize_t n):
    """``n`` times None."""
    cdef npy_intp length = n
    return cnp.PyArray_EMPTY(1, &length, cnp.NPY_OBJECT, 0)


cdef object new_array(object value, Py_ssize_t n):
    """The array that the first value of a key asks for."""
    kind = type(value)
    if kind is float:
        return zeros(n, cnp.NPY_DOUBLE)
    if kind is int:
        return zeros(n, INT_TYPE)
    if kind is bool:
        return zeros(n, cnp.NPY_BOOL)
    if issubclass(kind, np.number):
        return np.zeros(n, dtype=kind)
    if isinstance(value, np.ndarray):
        return np.zeros((n, *value.shape), dtype=value.dtype)
    return nothings(n)


def add_info(vector_infos, env_info, index, num_envs):
    """Add one environment's info to ``vector_infos`` as Gymnasium's ``_add_info`` does.

    Args:
        vector_infos: The infos of the vector environment so far.
        env_info: The info of one environment.
        index: Its index.
        num_envs: Number of environments.

    Returns:
        ``vector_infos``, changed in place.
    """
    for key, value in env_info.items():
        add_item(vector_infos, key, value, index, num_envs)
    return vector_infos


cdef object add_item(object infos, object key, object value, object index, Py_ssize_t n):
    """The rule of one key. Only a dict has been seen for ``infos``, but values of changing
    types can make it an array, whose error is then the same as Gymnasium's."""
    if key == "final_obs":
        array = infos["final_obs"] if "final_obs" in infos else nothings(n)
        array[index] = value
    elif isinstance(value, dict):
        array = add_info(infos.get(key, {}), value, index, n)
    else:
        array = infos[key] if key in infos else new_array(value, n)
        array[index] = value
    mask_key = f"_{key}"
    mask = infos.get(mask_key)
    if mask is None:
        mask = zeros(n, cnp.NPY_BOOL)
    mask[index] = True
    infos[key] = array
    infos[mask_key] = mask


@cython.final
@cython.freelist(64)
cdef class InfoColumn:
    """The array, or the nested infos, and the mask of one key. Neither is ever replaced in
    the dict that holds them, so they are looked up once."""

    cdef inline bint is_bound(self) noexcept:
        """Whether the arrays still have the memory and the shape that were looked up."""
        cdef cnp.ndarray mask = <cnp.ndarray>self.mask
        cdef cnp.ndarray array
        if cnp.PyArray_NDIM(mask) != 1 or <void*>cnp.PyArray_DATA(mask) != <void*>self.marks:
            return False
        if self.nested is not None:
            return True
        array = <cnp.ndarray>self.array
        return (
            cnp.PyArray_DIMS(array) + 1 == self.dims
            and cnp.PyArray_NDIM(array) == self.ndim
            and <void*>cnp.PyArray_DATA(array) == <void*>self.data
        )


@cython.final
@cython.freelist(8)
cdef class InfoBatch:
    """The infos of a vector environment while they are gathered.

    Args:
        num_envs: Number of environments.

    Attributes:
        infos: Dict with an array of length ``num_envs`` and a boolean mask ``_key`` for each
            key, nested for keys whose values are dicts.
    """

    def __cinit__(self, Py_ssize_t num_envs):
        self._n = num_envs
        self.infos = {}
        self._columns = []
        self._by_key = {}

    def add(self, info, index):
        """Add the info of one environment.

        An environment may come more than once, as with same-step autoreset.

        Raises:
            IndexError: ``index`` is outside ``[0, num_envs)``.
            Exception: What Gymnasium raises for values that do not fit the array of their key.
        """
        self.put(info, index)

    cdef int put(self, object info, Py_ssize_t index) except -1:
        cdef Py_ssize_t next_column = 0
        cdef InfoColumn column
        cdef PyObject* found
        if not 0 <= index < self._n:
            raise IndexError(f"index {index} is outside [0, {self._n})")
        if PyDict_CheckExact(info) and not <dict>info:
            return 0
        position = index
        for key, value in info.items():
            column = None
            # Environments mostly return the same keys in the same order.
            if next_column < PyList_GET_SIZE(self._columns):
                column = <InfoColumn>PyList_GET_ITEM(self._columns, next_column)
                if column.key is not key:
                    column = None
            # Keys that are equal without being strings may have different masks.
            if column is None and PyUnicode_CheckExact(key):
                found = PyDict_GetItemWithError(self._by_key, key)
                if found is not NULL:
                    column = <InfoColumn>found
            if column is not None:
                self.put_in_column(column, value, index, position)
            elif PyUnicode_CheckExact(key):
                column = self.first(key, value, index, position)
            else:
                add_item(self.infos, key, value, position, self._n)
            if column is not None:
                next_column = column.position + 1
        return 0

    cdef int put_in_column(
        self, InfoColumn column, object value, Py_ssize_t index, object position
    ) except -1:
        cdef bint is_dict = PyDict_Check(value)
        if not column.is_bound():
            # The caller can reach the arrays, and may give one another shape.
            add_item(self.infos, column.key, value, position, self._n)
            return 0
        if column.nested is not None:
            if not is_dict:
                add_item(self.infos, column.key, value, position, self._n)
                return 0
            # An info may contain itself.
            Py_EnterRecursiveCall(b" while gathering infos")
            try:
                column.nested.put(value, index)
            finally:
                Py_LeaveRecursiveCall()
        elif is_dict and column.key != "final_obs":
            add_item(self.infos, column.key, value, position, self._n)
            return 0
        elif column.is_double and PyFloat_Check(value):
            (<double*>column.data)[index] = PyFloat_AS_DOUBLE(value)
        elif not column.plain or not put_row(
            column.data + <size_t>index * column.row.nbytes, &column.row, value
        ):
            column.array[position] = value
        column.marks[index] = 1
        return 0

    cdef InfoColumn first(self, object key, object value, Py_ssize_t index, object position):
        """Add the first value of a key. None where the key cannot have a column, because a
        mask and the values of a key that begins with ``_`` share an entry."""
        cdef InfoColumn column
        cdef str mask_key = "_" + <str>key
        cdef bint is_new = key not in self.infos and mask_key not in self.infos
        cdef bint is_final = key == "final_obs"
        cdef InfoBatch nested = None
        if is_new:
            mask = zeros(self._n, cnp.NPY_BOOL)
            if is_final:
                array = nothings(self._n)
            elif PyDict_Check(value):
                nested = InfoBatch.__new__(InfoBatch, self._n)
                array = nested.infos
            else:
                array = new_array(value, self._n)
        else:
            add_item(self.infos, key, value, position, self._n)
            array = self.infos[key]
            mask = self.infos[mask_key]
        column = new_column(key, array, mask, nested, self._n)
        if column is None:
            return None
        if is_new:
            self.put_in_column(column, value, index, position)
            self.infos[key] = array
            self.infos[mask_key] = mask
        column.position = PyList_GET_SIZE(self._columns)
        self._columns.append(column)
        self._by_key[key] = column
        return column


cdef InfoColumn new_column(object key, object array, object mask, InfoBatch nested, Py_ssize_t n):
    """None where ``array`` or ``mask`` is not what such a name promises."""
    cdef InfoColumn column
    cdef cnp.ndarray rows
    if not is_array(mask, cnp.NPY_BOOL, 1, WRITE):
        return None
    rows = <cnp.ndarray>mask
    if cnp.PyArray_DIM(rows, 0) != n:
        return None
    column = InfoColumn.__new__(InfoColumn)
    column.key = key
    column.array = array
    column.nested = nested
    column.mask = mask
    column.marks = <cnp.npy_bool*>cnp.PyArray_DATA(rows)
    if nested is not None:
        return column
    if not is_contiguous(array, WRITE):
        return None
    rows = <cnp.ndarray>array
    if cnp.PyArray_NDIM(rows) == 0 or cnp.PyArray_DIM(rows, 0) != n:
        return None
    column.plain = describe_row(
        &column.row, <cnp.dtype><PyObject*>cnp.PyArray_DESCR(rows), cnp.PyArray_NDIM(rows) - 1,
        cnp.PyArray_DIMS(rows) + 1)
    column.dims = cnp.PyArray_DIMS(rows) + 1
    column.ndim = cnp.PyArray_NDIM(rows)
    column.data = cnp.PyArray_BYTES(rows)
    column.is_double = is_array(rows, cnp.NPY_DOUBLE, 1, WRITE)
    return column


def gather_infos(items, num_envs):
    """The infos of a vector environment from those of its sub-environments.

    Args:
        items: Pairs of an index and the info of that environment, in the order in which
            Gymnasium would add them.
        num_envs: Number of environments.

    Returns:
        Dict with an array of length ``num_envs`` and a boolean mask ``_key`` for each key,
        owned by the caller.
    """
    cdef InfoBatch batch = InfoBatch.__new__(InfoBatch, num_envs)
    for index, info in items:
        batch.put(info, index)
    return batch.infos
