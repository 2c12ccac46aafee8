"""Gymnasium's SyncVectorEnv, as it is and on gymvec's functions: ``make demo``.

Steps 64 CartPole-v1 both ways with the same seeds and actions, compares the trajectories to
the bit and times each function in both packages. The exit status is 1 where a trajectory
differs.
"""

import argparse
import contextlib
import os
import pickle
import platform
import sys
import time
from timeit import Timer

import gymnasium
import gymnasium.vector.utils
import numpy as np

import gymvec

NUM_ENVS = 64


def run_both(actions, at_once=20):
    """Both trajectories and the time of a step, taken in turn.

    Returns:
        For each way, all that reset and steps return, and the least seconds of a step.
    """
    ways = contextlib.nullcontext, gymvec.installation
    vector_envs, trajectories, times = [], ([], []), ([], [])
    for way, trajectory in zip(ways, trajectories, strict=True):
        with way():
            envs = gymnasium.make_vec("CartPole-v1", NUM_ENVS, vectorization_mode="sync")
            trajectory.append(envs.reset(seed=1))
        vector_envs.append(envs)
    for first in range(0, len(actions), at_once):
        part = actions[first : first + at_once]
        for i, way in enumerate(ways):
            with way():
                start = time.perf_counter()
                results = [vector_envs[i].step(action) for action in part]
                times[i].append((time.perf_counter() - start) / len(part))
            trajectories[i].extend(results)
    for envs in vector_envs:
        envs.close()
    return [(trajectories[i], min(times[i])) for i in range(2)]


def same(one, other):
    """Whether two results are equal in kind, dtype and every bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray) and one.dtype != object:
        return (one.dtype, one.shape) == (other.dtype, other.shape) and (
            one.tobytes() == other.tobytes()
        )
    return pickle.dumps(one) == pickle.dumps(other)


def names_of(utils):
    """What the statements below need, made by one of the packages."""
    env = gymnasium.make("CartPole-v1")
    space, action_space = env.observation_space, utils.batch_space(env.action_space, NUM_ENVS)
    space.seed(0)
    items = [space.sample() for _ in range(NUM_ENVS)]
    memory = utils.create_shared_memory(space, NUM_ENVS)
    return {
        **{name: getattr(utils, name) for name in gymvec.utils.__all__},
        **dict(space=space, spaces=[space] * NUM_ENVS, n=NUM_ENVS, items=items, value=items[0]),
        **dict(action_space=action_space, actions=action_space.sample(), memory=memory),
        "out": utils.create_empty_array(space, NUM_ENVS),
        "dumps": pickle.dumps,
        "env_fn": lambda: gymnasium.make("CartPole-v1"),
    }


STATEMENTS = {
    "concatenate": "concatenate(space, items, out)",
    "iterate": "for action in iterate(action_space, actions): pass",
    "create_empty_array": "create_empty_array(space, n)",
    "batch_space": "batch_space(space, n)",
    "batch_differing_spaces": "batch_differing_spaces(spaces)",
    "create_shared_memory": "create_shared_memory(space, n)",
    "write_to_shared_memory": "for i in range(n): write_to_shared_memory(space, i, value, memory)",
    "read_from_shared_memory": "read_from_shared_memory(space, memory, n)",
    "CloudpickleWrapper": "dumps(CloudpickleWrapper(env_fn))",
    "clear_mpi_env_vars": "with clear_mpi_env_vars(): pass",
}


def compare(statement, rounds=40):
    """Least microseconds of a statement in Gymnasium and in gymvec, taken in turn."""
    timers = [
        Timer(statement, globals=names_of(utils))
        for utils in (gymnasium.vector.utils, gymvec.utils)
    ]
    calls = max(1, int(1e-3 / timers[0].timeit(1)))
    times = [[timer.timeit(calls) / calls * 1e6 for timer in timers] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def print_row(name, theirs, ours):
    print(f"{name:38}{theirs:12.2f}{ours:12.2f}{theirs / ours:9.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    steps = parser.parse_args().steps

    print(
        f"{NUM_ENVS} CartPole-v1 in gymnasium.vector.SyncVectorEnv, {steps} steps each way\n"
        f"Gymnasium {gymnasium.__version__}, NumPy {np.__version__}, "
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores\n"
    )
    actions = np.random.default_rng(2).integers(0, 2, (steps, NUM_ENVS))
    (as_it_is, their_step), (on_gymvec, our_step) = run_both(actions)
    different = [i for i in range(steps + 1) if not same(as_it_is[i], on_gymvec[i])]

    print(f"{'least time, us':38}{'Gymnasium':>12}{'gymvec':>12}{'ratio':>9}")
    for name, statement in STATEMENTS.items():
        note = f" x {NUM_ENVS}" if "range(n)" in statement else ""
        print_row(name + note, *compare(statement))
    print_row("SyncVectorEnv.step, CartPoles included", their_step * 1e6, our_step * 1e6)

    if different:
        sys.exit(f"\nThe trajectories differ, first at step {different[0]} of {steps}.")
    ends = sum(int((result[2] | result[3]).sum()) for result in as_it_is[1:])
    print(
        f"\nThe trajectories are equal to the bit: {steps * NUM_ENVS} environment steps, "
        f"{ends} episodes ended."
    )


if __name__ == "__main__":
    main()
