"""What other extension modules may use of the kernels on blocks."""

cimport numpy as cnp

# The `n` rows that lie in a buffer, as an array on the same memory.
cdef cnp.ndarray view_block(object buffer, cnp.dtype dtype, tuple shape, Py_ssize_t n)
