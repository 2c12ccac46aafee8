"""C functions of Python and NumPy that Cython's own declarations lack."""

cimport numpy as cnp
from cpython.ref cimport Py_INCREF


cdef extern from *:
    const int NPY_HALF
    # For an exact int, which is never an error.
    long long PyLong_AsLongLongAndOverflow(object exact_int, int* overflow) noexcept
    object PyArray_Empty(int ndim, const cnp.npy_intp* dims, cnp.dtype descr, int fortran)
    object PyArray_Scalar(void* data, cnp.dtype descr, object base)


cdef inline cnp.ndarray empty_array(int ndim, const cnp.npy_intp* dims, cnp.dtype descr):
    Py_INCREF(descr)  # PyArray_Empty takes a reference away.
    return PyArray_Empty(ndim, dims, descr, 0)
