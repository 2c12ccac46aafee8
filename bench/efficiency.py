"""How much of the cores vectorizing leaves: ``python bench/efficiency.py --json FILE``.

    efficiency = time per env step of bare Python loops, one a core and all at once
                 / cores / time per env step of the vector environment

All subjects take the same steps with the same seeds and actions, in turn, for several rounds;
ratios are taken within a round. In the bare loops a reset counts as the step that the autoreset
mode makes of it. A figure during which something else slowed a core down is taken anew, whoever's
it is; ``--every-figure`` lets it count.
"""

import argparse
import statistics

import measure
from disturbance import Disturbance

from gymvec.compare.backends import BACKENDS, LIMIT, Setting
from gymvec.compare.measure import Plan, Pool
from gymvec.compare.measure import measured as measure_rows

KEYS = ("loops", "gymnasium-sync", "gymnasium-async", "gymvec-sync", "gymvec-async")

TARGETS = {
    ("CartPole-v1", 8): 0.70,
    ("CartPole-v1", 32): 0.85,
    ("HalfCheetah-v5", 32): 0.90,
    ("Ant-v5", 32): 0.88,
    ("ALE/Pong-v5", 32): 0.90,
    ("MiniGrid-Empty-8x8-v0", 32): 0.90,
}
# An environment that does nothing: times of Gymnasium over the time of gymvec async.
NOTHING_TARGETS = {"Gymnasium sync": 2, "Gymnasium async": 60}


def measured(name, num_envs, workers, plan, pool, disturbed):
    """Seconds an env step of each subject, one figure a round; and what was refused.

    Those of the bare loops are of one core, the mean of all; "unevenness" is by how much the
    slowest took longer, which lock-step has to wait for.
    """
    setting = Setting(measure.ENVIRONMENTS[name], num_envs, workers)
    subjects = [
        (BACKENDS[key], measure.cores() if BACKENDS[key] is LIMIT else workers) for key in KEYS
    ]
    rows = measure_rows(setting, subjects, plan, pool, disturbed=disturbed)
    times = {row.backend: row.seconds for row in rows if row.reason is None}
    cores = min(num_envs, measure.cores())
    times[LIMIT.name] = [seconds * cores for seconds in times[LIMIT.name]]
    return {
        "env": name,
        "num_envs": num_envs,
        "steps": rows[0].steps,
        "times": times,
        "unevenness": statistics.median(rows[0].unevenness),
        "retaken": {row.backend: row.retaken for row in rows},
        "disturbed": {row.backend: row.disturbed for row in rows},
        "refused": {row.backend: row.reason for row in rows if row.reason is not None},
    }


def judged(result, cores):
    """The result with its ratios, its target and whether it is reached."""
    times, key = result["times"], (result["env"], result["num_envs"])
    bare = times["bare loops"]
    result["efficiency"] = {
        kind: measure.median_ratio(bare, taken) / cores
        for kind, taken in times.items()
        if kind != "bare loops"
    }
    result["over Gymnasium"] = {
        kind: measure.median_ratio(times[kind], times["gymvec async"])
        for kind in NOTHING_TARGETS
        if kind in times
    }
    if result["env"] == "Nothing":
        result["target"] = NOTHING_TARGETS if result["num_envs"] == 32 else None
        result["reached"] = result["target"] and all(
            result["over Gymnasium"][kind] >= factor for kind, factor in NOTHING_TARGETS.items()
        )
    else:
        result["target"] = TARGETS.get(key)
        result["reached"] = result["target"] and (
            result["efficiency"]["gymvec async"] >= result["target"]
        )
    return result


def row(result):
    """The cells of a result."""
    times, efficiency = result["times"], result["efficiency"]
    ratios, target = result["over Gymnasium"], result["target"]
    if isinstance(target, dict):
        target = " and ".join(f"{factor} times {kind[10:]}" for kind, factor in target.items())
    return [
        result["env"],
        str(result["num_envs"]),
        *(
            measure.microseconds(times[kind]) if kind in times else "refuses"
            for kind in ("bare loops", *measure.VECTOR_ENVS)
        ),
        f"{result['unevenness']:.2f}",
        *(str(sum(result[kind].values())) for kind in ("retaken", "disturbed")),
        *(
            f"{efficiency[kind]:.2f}" if kind in efficiency else "0"
            for kind in ("Gymnasium async", "gymvec async")
        ),
        " / ".join(
            measure.digits(ratios[kind]) if kind in ratios else "-" for kind in NOTHING_TARGETS
        ),
        str(target or ""),
        measure.verdict(result["reached"]),
    ]


HEADER = [
    "environment", "n", "bare loop, us", *(f"{kind}, us" for kind in measure.VECTOR_ENVS),
    "slowest loop / mean", "figures taken anew", "figures that count though disturbed",
    "efficiency of Gymnasium async", "of gymvec async", "Gymnasium sync / async over it",
    "target", "reached",
]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", default=",".join(measure.ENVIRONMENTS))
    parser.add_argument("--num-envs", default="8,32")
    parser.add_argument("--workers", type=int, default=measure.cores())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="a subject and round, average")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--every-figure", action="store_true", help="also disturbed ones")
    arguments = parser.parse_args()
    plan = Plan(arguments.rounds, arguments.seconds, time_limit=300, same_steps=True)
    disturbed = (lambda: False) if arguments.every_figure else Disturbance()
    load, results = measure.load(), []
    with Pool() as pool:
        for name in arguments.envs.split(","):
            for num_envs in map(int, arguments.num_envs.split(",")):
                result = measured(name, num_envs, arguments.workers, plan, pool, disturbed)
                results.append(judged(result, measure.cores()))
                print(" ".join(row(result)), flush=True)
    facts = measure.about(load) | {"workers": arguments.workers, "results": results}
    measure.report("Vector environments", HEADER, map(row, results), facts, arguments.json)


if __name__ == "__main__":
    main()
