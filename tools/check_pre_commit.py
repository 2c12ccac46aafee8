"""Check that .pre-commit-config.yaml has the tools of the lint extra, in the same versions."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The name of a hook's repository, where it is not the tool's own.
PREFIX, SUFFIX = "mirrors-", "-pre-commit"


def hooks() -> dict[str, str]:
    """Versions by tool in .pre-commit-config.yaml."""
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    found = re.findall(r"- repo: \S+/(\S+)\n\s+rev: v(\S+)", text)
    return {name.removeprefix(PREFIX).removesuffix(SUFFIX): version for name, version in found}


def extra() -> dict[str, str]:
    """Versions by tool in the lint extra of pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text()
    (listed,) = re.findall(r"^lint = \[(.*?)^\]", text, re.M | re.S)
    return dict(re.findall(r'"([^"=]+)==([^"]+)"', listed))


def main() -> int:
    """Name each tool whose versions differ; 1 if there is one."""
    ours, theirs = extra(), hooks()
    differing = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    for name in differing:
        print(
            f"{name}: {ours.get(name)} in the lint extra, {theirs.get(name)} in "
            ".pre-commit-config.yaml",
            file=sys.stderr,
        )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
