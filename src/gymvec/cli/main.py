"""The command line: ``python -m gymvec SUBCOMMAND``.

A subcommand is a module with ``add_parser(subparsers)``, which adds a parser and sets ``func``
as its default: a function that takes the parsed arguments and returns the exit code.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import shlex
import sys
from collections.abc import Sequence

from gymvec.cli import compare, doctor

__all__ = ["main"]

_SUBCOMMANDS = (compare, doctor)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    Args:
        argv: The arguments, without the program's name; None for those of this process.

    Returns:
        The exit code.

    Raises:
        SystemExit: The arguments are not understood, or ask for help or the version.
    """
    parser = argparse.ArgumentParser(
        prog="python -m gymvec", description="gymnasium.vector, compiled."
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"gymvec {importlib.metadata.version('gymvec')}",
    )
    subparsers = parser.add_subparsers(required=True, metavar="SUBCOMMAND")
    for subcommand in _SUBCOMMANDS:
        subcommand.add_parser(subparsers)
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(
        argv, argparse.Namespace(command=f"{parser.prog} {shlex.join(argv)}")
    )
    return int(arguments.func(arguments))
