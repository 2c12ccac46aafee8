"""``python -m gymvec compare``."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import gymnasium

from gymvec.cli.report import FORMAT, failed, results
from gymvec.measuring.backends import BACKENDS, LIMIT, Backend, Setting, available
from gymvec.measuring.facts import about
from gymvec.measuring.load import load, load_text
from gymvec.measuring.rounds import Plan, Pool, Row, measured, parts
from gymvec.measuring.workloads import Registered
from gymvec.system.limits import usable_cores

__all__ = ["add_parser", "compare"]

_DESCRIPTION = """\
Steps an environment with random actions on every way there is to step many: Gymnasium's vector
environments, gymvec's, and those of other packages that are installed. The limit is bare Python
loops, one a core; with one environment that is the environment alone. Efficiency is the rate of
a backend over that of the loops.

All take turns, so that what else the machine does hits all alike. While others are measured, a
backend's processes are stopped. One that fails or hangs is a line with the reason.
"""
_PACKAGES = ("numpy", "gymnasium", "gymvec")


def add_parser(subparsers: Any) -> None:
    """Add ``compare`` to the subcommands."""
    parser = subparsers.add_parser(
        "compare",
        help="measure an environment of yours on each kind of vector environment",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("env_id", metavar="ENV_ID", help="id of a registered environment")
    parser.add_argument(
        "--num-envs", type=_counts, default=(1, 8, 32, 128), metavar="N,N,...",
        help="numbers of environments (default: 1,8,32,128)",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=_counts, default=(usable_cores(),), metavar="N,N,...",
        help="processes or threads, where one can choose (default: one a core)",
    )  # fmt: skip
    parser.add_argument(
        "--backends", type=_backends, metavar="KEY,KEY,...",
        help=f"some of {', '.join(BACKENDS)} (default: all that are installed)",
    )  # fmt: skip
    parser.add_argument(
        "--module", action="append", default=[], dest="modules", metavar="NAME",
        help="module to import first, which registers environments; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--env-kwargs", nargs="+", type=_env_kwarg, default=[], metavar="KEY=VALUE",
        help="arguments of the environment; the values are Python literals or plain words",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=_positive_float, default=0.5, help="of a measurement (default: 0.5)"
    )
    parser.add_argument(
        "--rounds", type=_positive, default=5, help="measurements of each backend (default: 5)"
    )
    parser.add_argument(
        "--time-limit", type=_positive_float, default=60.0, metavar="SECONDS",
        help="most that a backend may take to build its environments or for a measurement "
        "(default: 60)",
    )  # fmt: skip
    parser.add_argument(
        "--envpool-id", metavar="ID",
        help="id of the environment in EnvPool (default: the same, if EnvPool has it)",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    parser.add_argument("--plot", metavar="FILE.png", help="draw the figures")
    parser.set_defaults(func=_run)


def compare(
    env_fn: Any,
    subjects: Sequence[tuple[Backend, int]],
    sizes: Sequence[int],
    plan: Plan,
    envpool_id: str | None = None,
    tick: Any = lambda name, parts: None,
) -> list[Row]:
    """Measure each subject with each number of environments, and one environment alone.

    Args:
        env_fn: Makes an environment; goes to other processes.
        subjects: Backends, each with its number of workers.
        sizes: Numbers of environments.
        plan: How much is measured.
        envpool_id: The id of the environment in EnvPool.
        tick: As of :func:`gymvec.measuring.rounds.measured`.

    Returns:
        The rows, from few environments to many.
    """
    rows = []
    limit = (LIMIT, usable_cores())
    with Pool() as pool:
        for size in sorted({1, *sizes}):
            setting = Setting(env_fn, size, 1, envpool_id)
            some = [limit, *subjects] if size in sizes else [limit]
            rows += measured(setting, some, plan, pool, tick)
    return rows


def _run(arguments: argparse.Namespace) -> int:
    try:
        _require("rich")
        if arguments.plot is not None:
            _require("matplotlib")
            _check_format(arguments.plot)
        _check_paths(arguments.json, arguments.plot)
        env_fn = _environment(arguments)
    except _Refused as refused:
        print(f"python -m gymvec compare: error: {refused}", file=sys.stderr)
        return 2
    plan = Plan(arguments.rounds, arguments.seconds, arguments.time_limit)
    envpool_id = arguments.envpool_id or _same_in_envpool(arguments.env_id)
    backends = arguments.backends or available(envpool_id)
    subjects = [
        (backend, workers)
        for backend in backends
        if backend is not LIMIT
        for workers in (arguments.workers if backend.has_workers else arguments.workers[:1])
    ]
    before = load()
    try:
        rows = _with_progress(env_fn, subjects, arguments.num_envs, plan, envpool_id)
    except KeyboardInterrupt:
        print("interrupted; nothing is kept", file=sys.stderr)
        return 130
    found = results(rows)
    facts = {
        "format": FORMAT,
        **about(before, [*_PACKAGES, *_distributions(backends)], arguments.command),
        "env": asdict(env_fn),
        "plan": asdict(plan),
        "results": found,
    }
    _print(facts)
    if arguments.json is not None:
        # Arguments of the environment may be what JSON lacks.
        with open(arguments.json, "w") as file:
            json.dump(facts, file, indent=1, default=repr)
            file.write("\n")
    if failed(found):
        print("No vector environment could be measured.", file=sys.stderr)
        return 1
    if arguments.plot is not None:
        from gymvec.cli.plot import plot

        plot(facts, arguments.plot)
    return 0


class _Refused(Exception):
    """What was asked for cannot be done; the text says why."""


def _require(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise _Refused(f"this needs {package}, of the extra: pip install 'gymvec[compare]'")


def _check_paths(*paths: str | None) -> None:
    """Minutes of measuring should not be lost to a file that cannot be written."""
    for path in paths:
        if path is None:
            continue
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise _Refused(f"there is no folder {folder!r} to write to")
        if os.path.isdir(path):
            raise _Refused(f"{path!r} is a folder, not a file to write")
        if not os.access(path if os.path.exists(path) else folder, os.W_OK):
            raise _Refused(f"{path!r} cannot be written to")


def _check_format(path: str) -> None:
    from matplotlib.backend_bases import FigureCanvasBase

    ending = os.path.splitext(path)[1].removeprefix(".").lower()
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if ending and ending not in known:
        raise _Refused(f"no picture can be written as {ending!r}, only as {', '.join(known)}")


def _environment(arguments: argparse.Namespace) -> Registered:
    # `python -m` has put the current folder first in the path, and hosts inherit the path.
    for module in arguments.modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            raise _Refused(f"importing {module!r} failed: {error!r}") from error
    try:
        gymnasium.spec(arguments.env_id)
    except (gymnasium.error.Error, ImportError) as error:
        hint = "" if arguments.modules else " (--module imports modules that register some)"
        raise _Refused(f"{error}{hint}") from error
    return Registered(arguments.env_id, dict(arguments.env_kwargs), tuple(arguments.modules))


def _same_in_envpool(env_id: str) -> str | None:
    """The id if EnvPool has an environment of that name, asked in a process of its own."""
    from gymvec.measuring.hosts import Failure, Host

    if not BACKENDS["envpool"].is_installed:
        return None
    host = Host("spawn")
    try:
        return env_id if env_id in host.ask(_envpool_ids, limit=60.0) else None
    except Failure:
        return None
    finally:
        host.close()


def _envpool_ids(held: dict[str, Any]) -> list[str]:
    import envpool

    return list(envpool.list_all_envs())


def _with_progress(
    env_fn: Registered,
    subjects: Sequence[tuple[Backend, int]],
    sizes: Sequence[int],
    plan: Plan,
    envpool_id: str | None,
) -> list[Row]:
    from rich.console import Console
    from rich.progress import Progress

    runs = len(subjects) * len(sizes) + len({1, *sizes})
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(env_fn.id, total=runs * parts(plan))

        def tick(name: str, count: int) -> None:
            progress.update(task, advance=count, description=f"{env_fn.id}: {name}")

        return compare(env_fn, subjects, sizes, plan, envpool_id, tick)


def _print(facts: dict[str, Any]) -> None:
    from rich.console import Console

    from gymvec.cli.report import note_of_uneven_cores, rich_table

    console = Console()
    if not console.is_terminal:
        # Who reads it later has no width; rows stay whole.
        console = Console(width=160)
    console.print(rich_table(facts))
    note = note_of_uneven_cores(facts["results"])
    if note is not None:
        console.print(note, markup=False)
    versions = ", ".join(f"{name} {found}" for name, found in facts["versions"].items())
    console.print(f"{facts['machine']}, {facts['system']}; {versions}.", markup=False)
    console.print(load_text(*facts["load before and after"]), markup=False)


def _distributions(backends: Sequence[Backend]) -> list[str]:
    names = (backend.distribution for backend in backends)
    return list(dict.fromkeys(name for name in names if name is not None))


# --- arguments ---------------------------------------------------------------------------


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return number


def _positive_float(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return number


def _counts(text: str) -> tuple[int, ...]:
    return tuple(sorted({_positive(part) for part in text.split(",")}))


def _backends(text: str) -> list[Backend]:
    keys = text.split(",")
    for key in keys:
        if key not in BACKENDS:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(BACKENDS)}, got {key!r}")
    return [backend for key, backend in BACKENDS.items() if key in keys]


def _env_kwarg(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected name=value, got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        if re.fullmatch(r"[\w.:/+-]+", value):
            return name, value
    raise argparse.ArgumentTypeError(f"expected a Python literal or a word, got {text!r}")
