"""How much of the cores vectorizing leaves: ``python bench/vector_envs.py --json FILE``.

    efficiency = time per env step of bare Python loops, one a core and all at once
                 / cores / time per env step of the vector environment

All subjects take the same steps with the same seeds and actions, in turn, for several rounds;
ratios are taken within a round. In the bare loops a reset counts as the step that the autoreset
mode makes of it. Times and ratios to gymvec async are of all rounds. For the efficiency those
rounds count in which probes before and after both figures found all cores at full speed; the
efficiency over all rounds stands beside it.
"""

import argparse
import statistics

import measure
import table
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


def judged(result, at_full_speed, cores):
    """The quartiles, ratios and efficiencies of a result, its target and whether it is reached."""
    times, key = result.pop("times"), (result["env"], result["num_envs"])
    fast = {kind: at_full_speed[(*key, kind)] for kind in times}

    def counting(kind):
        """The figures of the bare loops and of this one, of the rounds that count."""
        rounds = zip(times[LIMIT.name], times[kind], fast[LIMIT.name], fast[kind], strict=True)
        return [(loops, taken) for loops, taken, *both in rounds if all(both)]

    def efficiency(pairs):
        return measure.median_ratio(*zip(*pairs, strict=True)) / cores

    vector_envs = [kind for kind in times if kind != LIMIT.name]
    result[measure.QUARTILES] = {kind: measure.quartiles(taken) for kind, taken in times.items()}
    result["rounds"] = len(times[LIMIT.name])
    result["rounds that count"] = len(counting(OURS))
    result["efficiency"] = {
        kind: efficiency(counting(kind))
        for kind in vector_envs
        if len(counting(kind)) >= FEWEST_ROUNDS
    }
    result["efficiency in all rounds"] = {
        kind: efficiency(zip(times[LIMIT.name], times[kind], strict=True)) for kind in vector_envs
    }
    result["over gymvec async"] = {
        kind: measure.median_ratio(times[kind], times[OURS]) for kind in vector_envs if kind != OURS
    }
    if key == ("Nothing", 32):
        result["target"] = NOTHING_TARGETS
        result["reached"] = all(
            result["over gymvec async"].get(kind, 0) >= factor
            for kind, factor in NOTHING_TARGETS.items()
        )
    else:
        result["target"] = TARGETS.get(key)
        result["reached"] = result["target"] and (
            result["efficiency"].get(OURS, 0) >= result["target"]
        )
    return result


def reached(result):
    """The cells of a result's target."""
    target = result["target"]
    if isinstance(target, dict):
        target = " and ".join(f"{kind} {factor} times" for kind, factor in target.items())
    return [str(target or ""), measure.verdict(result["reached"])]


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
    header = [*table.VECTOR_ENVS_HEADER, "target", "reached"]
    rows = [[*table.vector_env_cells(result), *reached(result)] for result in results]
    measure.report("Vector environments", header, rows, facts, arguments.json)


if __name__ == "__main__":
    main()
