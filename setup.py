"""The extension modules of gymvec; everything else is in pyproject.toml.

The environment variable GYMVEC_BUILD chooses how they are compiled:
``release`` (the default), ``debug`` (bounds checks, assertions, warnings are errors), ``sanitize``
(debug with AddressSanitizer and UndefinedBehaviorSanitizer) or ``portable`` (release without what
only Linux has, and with the pipes of Windows). Each has a build
folder of its own: neither Cython nor setuptools builds anew when only the flags differ.
"""

import os
import sys
from glob import glob

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

MODE = os.environ.get("GYMVEC_BUILD", "release")
MODES = ("release", "debug", "sanitize", "portable")
if MODE not in MODES:
    raise SystemExit(f"GYMVEC_BUILD must be one of {', '.join(MODES)}, got {MODE!r}")
CHECKED = MODE in ("debug", "sanitize")

if sys.platform == "win32":
    compile_args = ["/std:c11", "/experimental:c11atomics", "/Od" if CHECKED else "/O2"]
    link_args = []
else:
    compile_args = [
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Wconversion",
        "-fvisibility=hidden",
        "-pthread",
    ]
    compile_args += ["-O1", "-g", "-UNDEBUG"] if CHECKED else ["-O3", "-g0"]
    link_args = ["-pthread"]
    if CHECKED:
        # Not in a release: what compilers and headers to come warn of must not end an install.
        compile_args.append("-Werror")
    if sys.platform == "linux" and not CHECKED:
        link_args.append("-Wl,--strip-all")
    if MODE == "sanitize":
        sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
        compile_args += [*sanitizers, "-fno-omit-frame-pointer"]
        link_args += sanitizers

DIRECTIVES = {
    "language_level": 3,
    # Methods that look like Python's do not check the class of `self` when called unbound:
    # Worker.flush(None) would be a crash.
    "binding": False,
    "boundscheck": CHECKED,
    "wraparound": False,
    "initializedcheck": CHECKED,
    "cdivision": True,
    "embedsignature": False,
    # A pickle could make an object of a kernel class that was never bound to memory.
    "auto_pickle": False,
}


def extension(name: str, *c_sources: str) -> Extension:
    """One extension module: its Cython source and the C files it stands on."""
    return Extension(
        f"gymvec.{name}",
        sources=[
            f"src/gymvec/{name.replace('.', '/')}.pyx",
            *(f"csrc/{source}" for source in c_sources),
        ],
        depends=[*glob("csrc/*.h"), *glob("src/gymvec/**/*.pxd", recursive=True)],
        include_dirs=["csrc", numpy.get_include()],
        define_macros=[
            ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
            # The oldest NumPy that pyproject.toml allows; a build runs on all since.
            ("NPY_TARGET_VERSION", "NPY_1_20_API_VERSION"),
            *([("GV_PORTABLE", None)] if MODE == "portable" else []),
        ],
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )


# Each module is linked with what it uses of them; C code keeps nothing outside its objects.
CONTROL = ("control_parent.c", "control_worker.c", "control_wait.c", "parent_watchdog.c")

setup(
    ext_modules=cythonize(
        [
            extension("utils._dispatch"),
            extension("kernels.rows", "rows.c"),
            extension("utils._array_spaces"),
            extension("kernels.infos"),
            extension("vector.stepping"),
            extension("kernels.trees"),
            extension("vector.transport.action_block"),
            extension("vector.parent.fast_step"),
            extension("vector.transport.pipe"),
            extension("vector.worker.stepper"),
            extension("vector.transport.info_schemas"),
            extension("vector.transport.control", *CONTROL),
            extension("vector.transport.control_parent", *CONTROL),
            extension("vector.transport.control_worker", *CONTROL),
        ],
        compiler_directives=DIRECTIVES,
        include_path=["src"],
        build_dir=f"build/{MODE}/cython",
    ),
    options={"build": {"build_base": f"build/{MODE}"}},
)
