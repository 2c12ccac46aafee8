"""Check what an sdist and its wheel hold.

    python tools/check_dist.py dist

The sdist must hold every file that git has but those of the forge; the wheel all of the package
but its sources in Cython, a stub beside each extension module, and nothing else.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
WHEEL_BYTES = 1_000_000
# What only a checkout needs.
NOT_IN_SDIST = (".github/", ".gitignore")
IN_WHEEL = (".py", ".pyi", ".so", ".pyd", "py.typed")


def sdist_faults(sdist: Path) -> list[str]:
    """What an sdist lacks of the files under version control."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    listing = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tracked = [name for name in listing.stdout.splitlines() if not name.startswith(NOT_IN_SDIST)]
    faults = [f"{sdist.name} lacks {name}" for name in tracked if name not in names]
    built = [name for name in names if name.endswith((".so", ".pyd", ".pyc"))]
    return faults + [f"{sdist.name} has {name}, which was built" for name in sorted(built)]


def wheel_faults(wheel: Path) -> list[str]:
    """What a wheel has too much or too little of."""
    with zipfile.ZipFile(wheel) as archive:
        names = [PurePosixPath(name) for name in archive.namelist() if name[-1] != "/"]
    package = [name for name in names if name.parts[0] == "gymvec"]
    source = ROOT / "src"
    expected = {
        file.relative_to(source).as_posix()
        for pattern in ("*.py", "*.pyi", "py.typed")
        for file in (source / "gymvec").rglob(pattern)
    }
    modules = {
        file.relative_to(source).with_suffix("").as_posix()
        for file in (source / "gymvec").rglob("*.pyx")
    }
    compiled = {str(name).partition(".")[0] for name in package if name.suffix in (".so", ".pyd")}
    faults = [f"lacks {name}" for name in sorted(expected - {str(name) for name in package})]
    faults += [f"lacks the compiled {name}" for name in sorted(modules - compiled)]
    faults += [f"lacks a stub of {name}" for name in modules if f"{name}.pyi" not in expected]
    faults += [f"has {name}" for name in package if not name.name.endswith(IN_WHEEL)]
    faults += [
        f"has {name}"
        for name in names
        if name not in package and not name.parts[0].endswith(".dist-info")
    ]
    if wheel.stat().st_size > WHEEL_BYTES:
        faults.append(f"has {wheel.stat().st_size} bytes, more than {WHEEL_BYTES}")
    return [f"{wheel.name} {fault}" for fault in faults]


def main(folder: Path) -> int:
    """Check every distribution in a folder; 1 if one has a fault."""
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    faults = [] if wheels and len(sdists) == 1 else [f"{folder} needs one sdist and its wheels"]
    for sdist in sdists:
        faults += sdist_faults(sdist)
    for wheel in wheels:
        faults += wheel_faults(wheel)
        print(f"{wheel.name}: {wheel.stat().st_size} bytes")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
