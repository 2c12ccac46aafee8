"""The command line says which gymvec it is."""

import importlib.metadata
import subprocess
import sys

import pytest

from gymvec.cli import main as cli

pytestmark = pytest.mark.not_sanitized


def test_version():
    done = subprocess.run(
        [sys.executable, "-m", "gymvec", "--version"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == f"gymvec {importlib.metadata.version('gymvec')}\n"
    assert done.stderr == ""


def test_it_is_among_the_options(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["--help"])
    assert end.value.code == 0
    assert "--version" in capsys.readouterr().out
