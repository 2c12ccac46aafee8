"""How much of the cores vectorizing leaves: ``python bench/efficiency.py --json FILE``.

    efficiency = time per env step of bare Python loops, one a core and all at once
                 / cores / time per env step of the vector environment

All subjects take the same steps with the same seeds and actions, in turn, for several rounds;
ratios are taken within a round. In the bare loops a reset counts as the step that the autoreset
mode makes of it. Figures count if probes before and after them found all cores at full speed; the
others are kept, and the efficiency over all rounds stands beside that of these.
"""

import argparse
import statistics

import measure
from probes import Probes

from gymvec.measuring.backends import BACKENDS, LIMIT, Setting
from gymvec.measuring.rounds import Plan, Pool
from gymvec.measuring.rounds import measured as measure_rows

# Those whose ratio is a target follow one another.
KEYS = ("loops", "gymvec-async", "gymnasium-sync", "gymnasium-async", "gymvec-sync")

# The median of fewer rounds moves by more than it is off the targets.
FEWEST_ROUNDS = 7

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
OURS = "gymvec async"


def measured(name, num_envs, workers, plan, pool, probes):
    """Seconds an env step of each subject, one figure a round; and what was refused.

    Those of the bare loops are of one core, the mean of all; "unevenness" is by how much the
    slowest took longer, which lock-step has to wait for.
    """
    setting = Setting(measure.ENVIRONMENTS[name], num_envs, workers)
    subjects = [
        (BACKENDS[key], measure.cores() if BACKENDS[key] is LIMIT else workers) for key in KEYS
    ]
    rows = measure_rows(
        setting, subjects, plan, pool, lambda subject, parts: probes((name, num_envs, subject))
    )
    times = {row.backend: row.seconds for row in rows if row.reason is None}
    cores = min(num_envs, measure.cores())
    times[LIMIT.name] = [seconds * cores for seconds in times[LIMIT.name]]
    return {
        "env": name,
        "num_envs": num_envs,
        "steps": rows[0].steps,
        "times": times,
        "unevenness": statistics.median(rows[0].unevenness),
        "refused": {row.backend: row.reason for row in rows if row.reason is not None},
    }


def counting(result, *kinds):
    """The figures of each of these, of the rounds in which all of theirs count."""
    flags = [result["at full speed"][kind] for kind in kinds]
    return [
        [seconds for seconds, *fast in zip(result["times"][kind], *flags, strict=True) if all(fast)]
        for kind in kinds
    ]


def judged(result, at_full_speed, cores):
    """The result with its medians, its ratios, its target and whether it is reached."""
    times, key = result["times"], (result["env"], result["num_envs"])
    result["at full speed"] = {kind: at_full_speed[(*key, kind)] for kind in times}

    def ratio(above, below):
        pair = counting(result, above, below)
        return measure.median_ratio(*pair) if len(pair[0]) >= FEWEST_ROUNDS else None

    result["medians"] = {
        kind: statistics.median(counting(result, kind)[0] or seconds)
        for kind, seconds in times.items()
    }
    result["rounds"] = len(times[LIMIT.name])
    result["rounds that count"] = len(counting(result, LIMIT.name, OURS)[0])
    result["efficiency"] = {
        kind: found / cores
        for kind in times
        if kind != LIMIT.name and (found := ratio(LIMIT.name, kind)) is not None
    }
    result["efficiency in all rounds"] = {
        kind: measure.median_ratio(times[LIMIT.name], times[kind]) / cores
        for kind in times
        if kind != LIMIT.name
    }
    result["over Gymnasium"] = {
        kind: found
        for kind in NOTHING_TARGETS
        if kind in times and (found := ratio(kind, OURS)) is not None
    }
    if result["env"] == "Nothing":
        result["target"] = NOTHING_TARGETS if result["num_envs"] == 32 else None
        result["reached"] = result["target"] and all(
            result["over Gymnasium"].get(kind, 0) >= factor
            for kind, factor in NOTHING_TARGETS.items()
        )
    else:
        result["target"] = TARGETS.get(key)
        result["reached"] = result["target"] and (
            result["efficiency"].get(OURS, 0) >= result["target"]
        )
    return result


def cells(result, kinds):
    """What a table has of a result: the times of bare loops and of these, and efficiencies."""
    medians, efficiency = result["medians"], result["efficiency"]
    return [
        result["env"],
        str(result["num_envs"]),
        *(
            measure.digits(medians[kind] * 1e6) if kind in medians else "refuses"
            for kind in (LIMIT.name, *kinds)
        ),
        f"{result['unevenness']:.2f}",
        f"{result['rounds that count']} of {result['rounds']}",
        *(
            f"{efficiency[kind]:.2f}" if kind in efficiency else "-" if kind in medians else "0"
            for kind in ("Gymnasium async", OURS)
        ),
        f"{result['efficiency in all rounds'][OURS]:.2f}",
    ]


def row(result):
    """The cells of a result, with those of its target."""
    ratios, target = result["over Gymnasium"], result["target"]
    if isinstance(target, dict):
        target = " and ".join(f"{factor} times {kind[10:]}" for kind, factor in target.items())
    return [
        *cells(result, measure.VECTOR_ENVS),
        " / ".join(
            measure.digits(ratios[kind]) if kind in ratios else "-" for kind in NOTHING_TARGETS
        ),
        str(target or ""),
        measure.verdict(result["reached"]),
    ]


HEADER = [
    "environment", "n", "bare loop, us", *(f"{kind}, us" for kind in measure.VECTOR_ENVS),
    "slowest loop / mean", "rounds that count",
    "efficiency of Gymnasium async", "of gymvec async", "in all rounds",
    "Gymnasium sync / async over it", "target", "reached",
]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", default=",".join(measure.ENVIRONMENTS))
    parser.add_argument("--num-envs", default="8,32")
    parser.add_argument("--workers", type=int, default=measure.cores())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="a subject and round, average")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    plan = Plan(arguments.rounds, arguments.seconds, time_limit=300, same_steps=True)
    load, results, probes = measure.load(), [], Probes()
    with Pool() as pool:
        for name in arguments.envs.split(","):
            for num_envs in map(int, arguments.num_envs.split(",")):
                print(f"measuring {name}, n = {num_envs}", flush=True)
                results.append(measured(name, num_envs, arguments.workers, plan, pool, probes))
    at_full_speed = probes.at_full_speed()
    for result in results:
        judged(result, at_full_speed, measure.cores())
    facts = measure.about(load) | {"workers": arguments.workers, "results": results}
    measure.report("Vector environments", HEADER, map(row, results), facts, arguments.json)


if __name__ == "__main__":
    main()
