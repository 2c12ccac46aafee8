"""The asserts of csrc/tests/test_csrc.c, compiled with the sanitizers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.not_sanitized

CSRC = Path(__file__).parents[2] / "csrc"
COMPILER = os.environ.get("CC", "cc").split()
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
SANITIZERS = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.mark.skipif(sys.platform == "win32", reason="the flags are those of gcc and clang")
@pytest.mark.skipif(shutil.which(COMPILER[0]) is None, reason="no C compiler")
@pytest.mark.parametrize("flags", [SANITIZERS, ["-O3"]], ids=["sanitized", "optimised"])
def test_csrc(tmp_path, flags):
    program = tmp_path / "test_csrc"
    sources = [CSRC / "tests" / "test_csrc.c", CSRC / "rows.c"]
    subprocess.run(
        [*COMPILER, *WARNINGS, *flags, f"-I{CSRC}", *sources, "-lm", "-o", program], check=True
    )
    found = subprocess.run([program], check=True, capture_output=True, text=True)
    assert found.stdout == "csrc: all passed\n"
    assert found.stderr == ""
