"""Check the rules of the arrows between the folders of the package: ``python tools/check_arrows.py``.

An import, also one of a Cython module, points from a folder to itself or to one further down. No
class reads an attribute of ``self`` that only its subclasses set: such an arrow points up unseen.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "gymvec"

# From the top down; folders of one line do not import each other. A folder without a line of its
# own belongs to the one above it.
LAYERS = (
    ("",),
    ("cli", "integrations"),
    ("tune", "patch", "make"),
    ("measuring",),
    ("wrappers",),
    ("vector",),
    ("vector.parent",),
    ("vector.worker",),
    ("vector.transport",),
    ("vector.errors", "vector.copying", "vector.space_tree", "vector.spaces", "vector.stepping"),
    ("utils",),
    ("kernels",),
    ("system",),
)
# Of the parent's modules only one knows the worker: as the target of a process.
WORKER_TARGET = ("vector.parent.processes", "vector.worker.main")
# What the package does without: who imports it, names it here.
OPTIONAL = {"measuring": ("tune", "cli", "measuring"), "cli": ("cli", "__main__"), "integrations": ("integrations",)}

IMPORT = re.compile(r"^\s*(?:from (gymvec[\w.]*) c?import (.+)|c?import (gymvec[\w.]*))", re.M)


def modules() -> dict[str, Path]:
    """Each module of the package by its name below ``gymvec``."""
    found = {}
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in (".py", ".pyx", ".pxd"):
            name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
            found[f"{name}{'.pxd' if path.suffix == '.pxd' else ''}"] = path
    return found


def imported(path: Path) -> Iterator[str]:
    """The modules below ``gymvec`` that a file imports, and "" for the package itself."""
    names = {name.removesuffix(".pxd").removesuffix(".__init__") for name in modules()}
    for source, what, plain in IMPORT.findall(path.read_text()):
        if plain or source != "gymvec":
            below = (plain or source).removeprefix("gymvec").removeprefix(".")
        else:
            below = ""
        for word in re.findall(r"\w+", what.split("#")[0]) if what else ():
            inner = f"{below}.{word}".removeprefix(".")
            yield inner if inner in names else below
        if plain or "(" in what:
            yield below


def layer(name: str) -> tuple[int, str]:
    """How far down a module is, and the entry of ``LAYERS`` that it belongs to."""
    known = {entry: i for i, row in enumerate(LAYERS) for entry in row}
    parts = name.split(".")
    for length in range(len(parts), -1, -1):
        entry = ".".join(parts[:length])
        if entry in known:
            return known[entry], entry
    raise AssertionError(name)
