"""Check which way the arrows of the package point: ``python tools/check_arrows.py [SOURCE]``.

* An import, also one of a Cython module, points to the same room or to one further down.
* Parent and worker do not import each other, but for the target of a worker process.
* The package imports ``cli`` and ``integrations`` nowhere, and ``measuring`` only in ``tune``.
* Nothing inside imports the package's face.
* No class reads an attribute of ``self`` that only its subclasses set: such an arrow points up.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "gymvec"

# From the top down. A module belongs to the longest entry that its name begins with.
ROOMS = (
    ("__main__",),
    ("cli", "integrations"),
    ("",),
    ("patch",),
    ("make",),
    ("tune",),
    ("measuring",),
    ("vector",),
    ("vector.parent",),
    ("vector.worker",),
    ("vector.transport",),
    # What both processes and SyncVectorEnv use.
    ("vector.stepping", "vector.distinct", "vector.spaces"),
    ("vector.space_tree",),
    ("vector.copying", "vector.unpacking", "vector.errors"),
    ("utils",),
    ("kernels",),
    ("system",),
)
ALLOWED = {("vector.parent.processes", "vector.worker.main")}
OPTIONAL = {
    "cli": ("cli", "__main__"),
    "integrations": ("integrations",),
    "measuring": ("measuring", "cli", "tune"),
}

_IMPORT = re.compile(
    r"^[ \t]*(?:from (gymvec[\w.]*) c?import (\([^)]*\)|[^\n]+)|c?import (gymvec[\w.]*))", re.M
)


def modules(source: Path) -> dict[str, list[Path]]:
    """The files of each module, by its name below the package; that of the package is ""."""
    found: dict[str, list[Path]] = {}
    for path in sorted(source.rglob("*.p*")):
        if path.suffix in (".py", ".pyx", ".pxd"):
            parts = [
                part
                for part in path.relative_to(source).with_suffix("").parts
                if part != "__init__"
            ]
            found.setdefault(".".join(parts), []).append(path)
    return found


def imports(path: Path, known: dict[str, list[Path]]) -> set[str]:
    """The modules of the package that a file imports."""
    found = set()
    for source, names, plain in _IMPORT.findall(path.read_text(encoding="utf-8")):
        base = (source or plain).removeprefix("gymvec").removeprefix(".")
        words = re.findall(r"\w+", re.sub(r"#.*|\bas \w+", "", names))
        inner = [f"{base}.{word}".removeprefix(".") for word in words]
        found.update(name if name in known else base for name in inner or [base])
    return found


def room(name: str) -> tuple[int, str]:
    """How far down a module stands, and the entry of ``ROOMS`` that it belongs to."""
    entries = {entry: depth for depth, row in enumerate(ROOMS) for entry in row}
    parts = name.split(".")
    longest = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    entry = next((entry for entry in longest if entry in entries), "")
    return entries[entry], entry


def wrong_imports(source: Path) -> Iterator[str]:
    """Imports that point up, or to a folder that is not for this module."""
    known = modules(source)
    for name, paths in known.items():
        for other in sorted(set().union(*(imports(path, known) for path in paths))):
            (depth, ours), (other_depth, theirs) = room(name), room(other)
            users = OPTIONAL.get(theirs, (ours,))
            if (name, other) in ALLOWED or ours == theirs:
                continue
            if other == "" and ours != "cli":
                yield f"{name} imports the package's face"
            elif other_depth <= depth:
                yield f"{name} imports {other}, which does not stand below it"
            elif {ours, theirs} == {"vector.parent", "vector.worker"}:
                yield f"{name} imports {other}: parent and worker meet in vector.transport only"
            elif ours not in users:
                yield f"{name} imports {other}, which is for {', '.join(users)}"


def _classes(source: Path) -> dict[str, ast.ClassDef]:
    return {
        node.name: node
        for path in source.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }


def _bases(node: ast.ClassDef) -> Iterator[str]:
    for base in node.bases:
        while isinstance(base, ast.Subscript):
            base = base.value
        yield base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")


def _attributes(node: ast.ClassDef) -> tuple[set[str], set[str]]:
    """Names that a class sets, in its body or on ``self``, and names that it reads from ``self``."""
    sets, reads = set(), set()
    for item in node.body:
        if isinstance(item, ast.FunctionDef | ast.ClassDef):
            sets.add(item.name)
        elif isinstance(item, ast.Assign):
            sets.update(target.id for target in item.targets if isinstance(target, ast.Name))
        elif isinstance(item, ast.AnnAssign) and item.value and isinstance(item.target, ast.Name):
            sets.add(item.target.id)
    for item in ast.walk(node):
        if (
            isinstance(item, ast.Attribute)
            and isinstance(item.value, ast.Name)
            and item.value.id == "self"
        ):
            (reads if isinstance(item.ctx, ast.Load) else sets).add(item.attr)
    return sets, reads


def hidden_arrows(source: Path) -> Iterator[str]:
    """Attributes that a class reads and only a subclass sets."""
    classes = _classes(source)
    facts = {name: _attributes(node) for name, node in classes.items()}

    def above(name: str) -> Iterator[str]:
        for base in _bases(classes[name]):
            if base in classes and base != name:
                yield base
                yield from above(base)

    for name in classes:
        for base in dict.fromkeys(above(name)):
            known = facts[base][0].union(*(facts[each][0] for each in above(base)))
            for attribute in sorted(facts[base][1] & facts[name][0] - known):
                yield f"{base} reads self.{attribute}, which only {name} sets"


def main(source: Path) -> int:
    """Print what points the wrong way; 1 if anything does."""
    found = [*wrong_imports(source), *hidden_arrows(source)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE))
