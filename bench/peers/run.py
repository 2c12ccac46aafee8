"""gymvec beside other packages, on the environments of the targets: ``make peers``.

    python bench/peers/run.py [--json bench/results/peers.json]
    python bench/peers/run.py --reduce COMPARED.json bench/results/compare.json

What is measured is as in ``python -m gymvec compare``; peers that are not installed are named in
the result. EnvPool's environments are its own, in C++, without Python: the mark of what leaving
Python altogether gives. With ``--reduce`` nothing is measured: what ``python -m gymvec compare
--json`` wrote gets the form of the results that are kept.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from gymvec.cli.report import results
from gymvec.measuring import backends, facts
from gymvec.measuring.load import load
from gymvec.measuring.rounds import Plan, Pool, measured, parts
from gymvec.system.limits import usable_cores

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import measure  # noqa: E402
import table  # noqa: E402

ENVPOOL_IDS = {
    "CartPole-v1": "CartPole-v1",
    "HalfCheetah-v5": "HalfCheetah-v5",
    "Ant-v5": "Ant-v5",
    "ALE/Pong-v5": "Pong-v5",
    "MiniGrid-Empty-8x8-v0": "MiniGrid-Empty-8x8-v0",
}
PACKAGES = (
    "numpy", "gymnasium", "gymvec", "stable-baselines3", "pufferlib", "supersuit", "envpool",
    "mujoco", "ale-py", "minigrid",
)  # fmt: skip


def subjects(name, workers):
    """The backends that are installed and have the environment, with their workers."""
    found = []
    for each in backends.available(ENVPOOL_IDS.get(name)):
        # The limit is of all cores, whatever the others are given.
        found.append((each, usable_cores() if each is backends.LIMIT else workers))
        if each.key == "pufferlib" and workers > 1:
            # Its main process polls all the time, and may want a core for that.
            found.append((each, workers - 1))
    return found


def absent():
    """Why each of the other packages is not measured."""
    return {
        backend.name: f"{backend.distribution} is not installed"
        for backend in backends.BACKENDS.values()
        if not backend.is_installed
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", default=",".join(("Nothing", *ENVPOOL_IDS)))
    parser.add_argument("--num-envs", type=int, default=32)
    parser.add_argument("--workers", type=int, default=usable_cores())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.25, help="of a measurement")
    parser.add_argument("--json", metavar="FILE", default="bench/results/peers.json")
    parser.add_argument("--reduce", nargs=2, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.reduce is not None:
        source, target = arguments.reduce
        figures = json.loads(Path(source).read_text("utf-8"))
        measure.write(target, figures | {"results": measure.reduced(figures["results"])})
        return
    plan = Plan(arguments.rounds, arguments.seconds)
    names, before, found = arguments.envs.split(","), load(), []
    total = sum(len(subjects(name, 1)) for name in names) * parts(plan)
    console = Console(stderr=True)
    with Pool() as pool, Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        for name in names:

            def tick(backend, count, name=name):
                progress.update(task, advance=count, description=f"{name}: {backend}")

            setting = backends.Setting(
                measure.ENVIRONMENTS[name], arguments.num_envs, 1, ENVPOOL_IDS.get(name)
            )
            rows = measured(setting, subjects(name, arguments.workers), plan, pool, tick)
            found += [{"env": name, **result} for result in measure.reduced(results(rows))]
    figures = {
        **facts.about(before, PACKAGES),
        "num_envs": arguments.num_envs,
        "workers": arguments.workers,
        "plan": asdict(plan),
        "absent": absent(),
        "results": found,
    }
    measure.write(arguments.json, figures)
    print(table.other_packages(figures))


if __name__ == "__main__":
    main()
