"""Install the peers, each as far as it can be: ``python bench/peers/install.py``.

Into the environment of the Python that runs it. One that has no wheel for this Python must not
keep the others away.
"""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def lines(name):
    """The requirements of a file."""
    stripped = (line.strip() for line in (FOLDER / name).read_text().splitlines())
    return [line for line in stripped if line and not line.startswith("#")]


def install(requirement, *options):
    command = [sys.executable, "-m", "pip", "install", "--quiet", *options, requirement]
    if subprocess.run(command, check=False).returncode != 0:
        print(f"cannot be installed here: {requirement}")


def main():
    for requirement in lines("requirements.txt"):
        install(requirement)
    for requirement in lines("requirements-no-deps.txt"):
        install(requirement, "--no-deps", "--only-binary=:all:")


if __name__ == "__main__":
    main()
