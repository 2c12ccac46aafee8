"""The command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from gymvec import doctor

__all__ = ["main"]

# Each has add_parser(subparsers), which sets `func`: a function of the arguments.
_COMMANDS = (doctor,)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: What stands behind the program's name; None for that of this process.

    Returns:
        Exit code.
    """
    parser = argparse.ArgumentParser(
        prog="python -m gymvec", description="gymnasium.vector, compiled."
    )
    subparsers = parser.add_subparsers(metavar="command", required=True)
    for command in _COMMANDS:
        command.add_parser(subparsers)
    arguments = parser.parse_args(argv)
    return int(arguments.func(arguments))
