"""Test the package on every supported Python, with the oldest and the newest dependencies.

    python tools/matrix.py [--pythons "3.10 3.12"] [--cells oldest] [arguments of pytest]

The sdist is built once, a wheel of it once for each Python, and each cell has an environment of
its own, in build/matrix. The oldest versions are the lower bounds in pyproject.toml.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "matrix"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
CELLS = ("oldest", "newest")


def interpreter(version: str) -> str | None:
    """An interpreter of a version: one on the path, else the newest of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    free_threaded = version.endswith("t")
    installed = [
        folder
        for folder in pyenv.glob(f"{version.rstrip('t')}.*")
        if folder.name.endswith("t") == free_threaded
    ]
    candidates = [
        shutil.which(f"python{version}"),
        *(str(folder / "bin" / "python") for folder in sorted(installed, key=_age, reverse=True)),
    ]
    for candidate in candidates:
        # A shim of pyenv is on the path whether or not there is an interpreter behind it.
        if candidate and _succeeds(candidate, "-c", "import ensurepip"):
            return candidate
    return None


def _age(folder: Path) -> list[int]:
    return [int(part) for part in folder.name.rstrip("t").split(".") if part.isdigit()]


def _succeeds(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


def oldest(wheel: Path, version: str) -> list[str]:
    """Each dependency of a wheel at its lower bound for a version of Python.

    Raises:
        SystemExit: A dependency has no lower bound.
    """
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    bounds: dict[str, str] = {}
    for line in metadata.get_all("Requires-Dist", []):
        requirement = Requirement(line)
        environment = {"python_version": version.rstrip("t"), "extra": ""}
        if requirement.marker is not None and not requirement.marker.evaluate(environment):
            continue
        lower = [part.version for part in requirement.specifier if part.operator == ">="]
        if not lower:
            raise SystemExit(f"{line!r} in pyproject.toml has no lower bound")
        bounds[requirement.name] = lower[0]
    return [f"{name}=={bound}" for name, bound in bounds.items()]


def make_environment(python: str, folder: Path) -> Path:
    """A virtual environment, made unless it is there; returns its interpreter."""
    own = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not _succeeds(str(own), "-c", "import pip"):
        subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
        pip(own, "install", "--upgrade", "pip")
    return own


def pip(python: Path, *arguments: str) -> None:
    """Run pip quietly; an error ends the program."""
    subprocess.run([python, "-m", "pip", "--quiet", *arguments], check=True, cwd=FOLDER)


def build_wheel(python: str, version: str, sdist: Path) -> Path:
    """The wheel of the sdist for one Python, which needs nothing but the sdist."""
    folder = FOLDER / version / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    own = make_environment(python, FOLDER / version / "build")
    pip(own, "wheel", "--no-deps", "--wheel-dir", str(folder), str(sdist))
    return next(folder.glob("*.whl"))


def run_cell(python: str, version: str, cell: str, wheel: Path, arguments: list[str]) -> bool:
    """Test a wheel with the oldest or the newest dependencies. Whether all passed."""
    own = make_environment(python, FOLDER / version / cell)
    constraints = FOLDER / version / f"{cell}.txt"
    pins = oldest(wheel, version) if cell == "oldest" else []
    constraints.write_text("".join(f"{pin}\n" for pin in pins))
    pip(own, "install", "--force-reinstall", "--no-deps", str(wheel))
    pip(own, "install", "--upgrade", "--constraint", str(constraints), f"{wheel}[test]")
    print(f"\n--- Python {version}, {cell}: {', '.join(pins) or 'no pins'}", flush=True)
    return subprocess.run([own, "-m", "pytest", *arguments], cwd=ROOT).returncode == 0


def build_sdist() -> Path:
    """The sdist of the working tree, built by the interpreter that runs this."""
    folder = FOLDER / "sdist"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(
        [sys.executable, "-m", "build", "--sdist", "--outdir", folder, ROOT],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return next(folder.glob("*.tar.gz"))


def main() -> int:
    """Run the cells that were asked for; 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pythons", default=" ".join(PYTHONS), help="versions to test")
    parser.add_argument("--cells", default=" ".join(CELLS), help="oldest, newest or both")
    options, arguments = parser.parse_known_args()
    versions, cells = options.pythons.split(), options.cells.split()
    if unknown := set(cells) - set(CELLS):
        parser.error(f"expected cells among {', '.join(CELLS)}, got {', '.join(sorted(unknown))}")
    pythons = {version: interpreter(version) for version in versions}
    if missing := [version for version, python in pythons.items() if python is None]:
        there = " ".join(version for version in versions if version not in missing)
        parser.exit(
            1,
            f"there is no Python {', '.join(missing)} on the path or in pyenv; install it, "
            f'or test without: make matrix PYTHONS="{there}"\n',
        )
    FOLDER.mkdir(parents=True, exist_ok=True)
    sdist = build_sdist()
    failed = []
    for version, python in pythons.items():
        assert python is not None
        wheel = build_wheel(python, version, sdist)
        for cell in cells:
            if not run_cell(python, version, cell, wheel, arguments):
                failed.append(f"Python {version}, {cell}")
    count = len(versions) * len(cells)
    print(f"\nmatrix: {count - len(failed)} of {count} cells passed", *failed, sep="\n  failed: ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
