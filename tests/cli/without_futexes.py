"""Runs a program in a sandbox that refuses what gymvec sleeps with: futexes between processes.

``python without_futexes.py module arguments...`` (x86-64 Linux). The futexes of the interpreter's
own locks are of other kinds and go on.
"""

import ctypes
import errno
import runpy
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
FUTEX_NUMBER, NUMBER_AT, OPERATION_AT = 202, 0, 24
# FUTEX_WAIT and FUTEX_WAKE are operations 0 and 1, without any flag.
FILTER = [
    (LOAD, 0, 0, NUMBER_AT),
    (EQUAL, 0, 3, FUTEX_NUMBER),
    (LOAD, 0, 0, OPERATION_AT),
    (AT_LEAST, 1, 0, 2),
    (RETURN, 0, 0, REFUSE),
    (RETURN, 0, 0, ALLOW),
]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def install():
    code = b"".join(struct.pack("HBBI", *line) for line in FILTER)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = Program(len(FILTER), ctypes.cast(buffer, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    long = ctypes.c_ulong
    if libc.prctl(PR_SET_NO_NEW_PRIVS, long(1), long(0), long(0), long(0)) != 0:
        sys.exit(99)
    if libc.prctl(PR_SET_SECCOMP, long(SECCOMP_MODE_FILTER), ctypes.byref(program)) != 0:
        sys.exit(99)


if __name__ == "__main__":
    install()
    module, *sys.argv[1:] = sys.argv[1:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
