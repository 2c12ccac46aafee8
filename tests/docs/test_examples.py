"""Every Python example of README.md and of docs runs, as a program of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _examples():
    for page in PAGES:
        for number, code in enumerate(BLOCK.findall(page.read_text())):
            yield pytest.param(code, id=f"{page.stem}-{number}")


EXAMPLES = list(_examples())


def test_no_example_is_missed():
    assert len(EXAMPLES) >= 16
    for page in PAGES:
        # Whatever looks like an example in another fence would not be run.
        assert not re.search(r"^```(py|python3|pycon)\b(?!thon\n)", page.read_text(), re.M), page


@pytest.mark.parametrize("code", EXAMPLES)
def test_example(code, tmp_path):
    program = tmp_path / "example.py"
    program.write_text(code)
    ended = subprocess.run(
        [sys.executable, "-W", "error", program], capture_output=True, text=True, timeout=200
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
