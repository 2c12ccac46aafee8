"""Little room for shared memory: an error at construction that says what to do, never a signal."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile

import pytest
from gymnasium.spaces import Box
from scripted import Scripted

from gymvec import AsyncVectorEnv
from gymvec.system import limits as cores
from gymvec.vector.transport import memory as segment

resource = pytest.importorskip("resource")

pytestmark = [
    pytest.mark.not_sanitized,
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform == "win32", reason="the page file"),
]

# Observations of a megabyte, and a text of as many codes.
PROGRAM = """
import sys
import numpy as np
from gymnasium.spaces import Box, Text
from scripted import Scripted
from gymvec import AsyncVectorEnv, utils

BIG = Box(0, 255, (1 << 20,), np.uint8)

def zeros(steps):
    return np.zeros(BIG.shape, np.uint8)

def attempt(what):
    try:
        what()
    except OSError as error:
        print(type(error).__name__, error.errno, str(error))
    else:
        print("fine")

def vector_env(space, observe):
    envs = AsyncVectorEnv([lambda: Scripted(space, observe=observe)] * 2, context="fork")
    envs.reset()
    envs.step(np.zeros((2, 2)))
    envs.close()

if __name__ == "__main__":
    attempt(lambda: vector_env(BIG, zeros))
    attempt(lambda: utils.create_shared_memory(BIG, 2))
    attempt(lambda: utils.create_shared_memory(Text(1 << 20), 2))
    attempt(lambda: vector_env(Scripted().observation_space, Scripted().observe))
"""


def run(tmp_path, mounts, temp_folder):
    """What the program says where file systems of some kilobytes are mounted, for it alone."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    lines = [f"mount -t tmpfs -o size={size} tmpfs {folder} || exit 99" for folder, size in mounts]
    lines.append(f'exec "{sys.executable}" "{program}"')
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", "\n".join(lines)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "TMPDIR": str(temp_folder),
        },
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.splitlines()


def can_mount():
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    command = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    return subprocess.run(command, capture_output=True).returncode == 0


needs_mount = pytest.mark.skipif(not can_mount(), reason="mounting file systems needs root")


@needs_mount
def test_no_room_anywhere(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    said = run(tmp_path, [("/dev/shm", "64k"), (small, "64k")], small)
    assert len(said) == 4
    for line in said[:3]:
        assert line.startswith(f"OSError {errno.ENOSPC} "), line
        assert "no room for" in line and "--shm-size" in line and "bytes" in line
    # What is small enough goes on: nothing is left of what was too large.
    assert said[3] == "fine"


@needs_mount
def test_a_tiny_dev_shm_beside_a_large_temporary_directory(tmp_path):
    said = run(tmp_path, [("/dev/shm", "64k")], tmp_path)
    assert said == ["fine"] * 4


def too_large():
    space = Box(0, 1, (1 << 22,))
    return AsyncVectorEnv(
        [lambda: Scripted(space)] * 2, observation_space=space, action_space=space
    )


def test_a_limit_on_the_size_of_files():
    """Works for anybody: a file of shared memory is a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(OSError, match="no room for .* bytes of shared memory") as caught:
            too_large()
        assert caught.value.errno == errno.EFBIG
        envs = AsyncVectorEnv([Scripted] * 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    envs.reset()
    envs.close()


def test_a_limit_of_the_cgroup(tmp_path, monkeypatch):
    """Who takes more would be ended without an error."""
    group = tmp_path / "cgroup" / "box"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("1000000\n")
    (tmp_path / "cgroup" / "memory.max").write_text("max\n")
    monkeypatch.setattr(cores, "_CGROUPS", str(tmp_path / "cgroup"))
    real = cores._read
    monkeypatch.setattr(
        cores, "_read", lambda path: "0::/box\n" if path.startswith("/proc") else real(path)
    )
    assert cores.memory_limit() == 1_000_000
    with pytest.raises(OSError, match="cgroup allows 1000000 bytes") as caught:
        too_large()
    assert caught.value.errno == errno.ENOMEM
    (group / "memory.max").write_text("max\n")
    assert cores.memory_limit() is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.ENOMEM])
def test_no_room_while_reserving(number, monkeypatch):
    def refuse(*arguments):
        raise OSError(number, "refused")

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    with pytest.raises(OSError, match="no room .*refused.*fewer environments") as caught:
        segment.Segment(100)
    assert caught.value.errno == number


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL])
def test_a_file_system_that_cannot_reserve(number, monkeypatch):
    def refuse(*arguments):
        raise OSError(number, "refused")

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    made = segment.Segment(100)
    made.buffer[0] = 1


def test_other_errors_are_as_they_are(monkeypatch):
    def refuse(**arguments):
        raise PermissionError(errno.EACCES, "refused")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(PermissionError, match="refused"):
        segment.Segment(100)
