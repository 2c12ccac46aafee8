"""The worker's side: wait for commands, step environments, write, answer."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
from collections.abc import Callable
from typing import Any

from gymnasium import Env
from gymnasium.vector.vector_env import AutoresetMode

from gymvec.system.signals import let_interrupts_through
from gymvec.vector import stepping
from gymvec.vector.copying import keep_terminal
from gymvec.vector.distinct import check_distinct
from gymvec.vector.space_tree import bind_writer
from gymvec.vector.spaces import goes_with
from gymvec.vector.stepping import StepBlocks
from gymvec.vector.transport import control
from gymvec.vector.transport.actions import bind_action_reader
from gymvec.vector.transport.control_worker import Worker
from gymvec.vector.transport.env_registry import register_missing
from gymvec.vector.transport.exceptions import pack_error, text_of
from gymvec.vector.transport.info_schemas import SlotWriter
from gymvec.vector.transport.messages import (
    Command,
    MessageKind,
    MessagePipe,
    WorkerConfig,
    dumps,
    join_parts,
    parts_of,
)
from gymvec.vector.transport.pipe import THREADED
from gymvec.vector.worker.io_wait import WaitMeter
from gymvec.vector.worker.restarted_env import behind, set_lost
from gymvec.vector.worker.stepper import Stepper, serve_pass

__all__ = ["run_worker"]

# How long a worker with unwritten messages waits for the pipe before it looks at its doorbell.
_FLUSH_SECONDS = 0.001
# How often a worker asks whether its parent lives, where no thread watches (Windows).
_PARENT_SECONDS = 1.0
_MODES = {
    AutoresetMode.NEXT_STEP: stepping.NEXT_STEP,
    AutoresetMode.SAME_STEP: stepping.SAME_STEP,
    AutoresetMode.DISABLED: stepping.DISABLED,
}


def run_worker(config: WorkerConfig) -> None:
    """The target of a worker process."""
    _take_signals()
    for connection in config.unused:
        connection.close()
    register_missing(config.specs)
    part = config.layout.slices[config.index]
    doorbell = Worker(
        config.segment.buffer,
        config.layout.header,
        part.queue,
        part.size,
        wait=config.wait,
        polling=config.polling,
    )
    doorbell.watch_parent(config.parent_pid)
    pipe = MessagePipe(config.connection)
    _Worker(config, doorbell, pipe).run()


def _take_signals() -> None:
    """Undo what a fork has copied of the parent's signal handling."""
    # The parent alone decides what Ctrl-C ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if callable(signal.getsignal(signal.SIGTERM)):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    let_interrupts_through()


class _Worker:
    def __init__(self, config: WorkerConfig, doorbell: Worker, pipe: MessagePipe) -> None:
        self._doorbell = doorbell
        self._pipe = pipe
        self._part = config.layout.slices[config.index]
        self._first = self._part.start
        self._orders = config
        self._messages = self._part.messages.view(config.segment)
        self._send_queue: list[tuple[int, MessageKind, bytes]] = []
        self._reports: list[tuple[int, MessageKind, bytes]] = []
        self._inbox: dict[int, memoryview] = {}
        self._envs: list[Any] = [None] * self._part.size
        self._open = self._part.size
        self._stepper: Stepper | None = None
        self._actions: Any = None
        self._meter = WaitMeter() if config.measures_waiting and self._part.size > 1 else None
        self._is_copy = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._disown)

    def _disown(self) -> None:
        """This process is a child that an environment has forked: it must not answer."""
        self._is_copy = True
        # Unless another thread waits on it, which is not here.
        with contextlib.suppress(RuntimeError):
            self._doorbell.close()

    def _let_copies_end(self, error: BaseException) -> None:
        """Where an environment raised: in a child that it has forked, that ends the child."""
        if self._is_copy:
            # `sys.exit`, above all.
            raise error

    def run(self) -> None:
        """Serve until every environment is closed."""
        commands: dict[int, Callable[[int], None]] = {Command.CLOSE: self._close}
        if self._build():
            commands |= self._bind()
        if self._orders.snapshots is None:
            self._pipe.post(join_parts(self._reports))
        else:
            self._resume(self._orders.snapshots)
        doorbell, stepper, actions = self._doorbell, self._stepper, self._actions
        fail, post, step = self._fail, self._post_send_queue, int(Command.STEP)
        while self._open > 0:
            self._rest()
            # While it is measured a step is a command like others.
            plain = step if self._meter is None else -1
            serve_pass(doorbell, stepper, plain, actions, commands, fail, post)
            post()
        self._write_all()

    def _rest(self) -> None:
        """Wait for the doorbell; meanwhile write what the pipe did not take at first."""
        while not self._pipe.flush():
            self._pipe.wait(_FLUSH_SECONDS)
            if self._doorbell.wait(0):
                return
        if not THREADED:
            self._doorbell.wait()
            return
        while not self._doorbell.wait(_PARENT_SECONDS):
            if not control.parent_alive(self._orders.parent_pid):
                os._exit(control.ORPHANED_EXIT)

    # --- messages ---

    def _send(self, env: int, content: Any, schema: Any = None) -> None:
        """Announce a message with the answer that comes next, and write it after the pass."""
        self._messages[env] = True
        if schema is not None:
            self._send_queue.append((self._first + env, MessageKind.SCHEMA, dumps(schema)))
        self._send_queue.append(self._envelope(env, content))

    def _fail(self, env: int, error: BaseException) -> None:
        self._let_copies_end(error)
        self._messages[env] = True
        self._send_queue.append((self._first + env, MessageKind.ERROR, pack_error(error)))

    def _envelope(self, env: int, content: Any) -> tuple[int, MessageKind, bytes]:
        # Pickled at once: the next environment may change what this one has returned.
        index = self._first + env
        try:
            return index, MessageKind.ANSWER, dumps(content)
        except BaseException as error:
            failure = RuntimeError(
                f"what environment {index} returned cannot be pickled: "
                f"{type(error).__name__}: {text_of(error)}"
            )
            return index, MessageKind.ERROR, pack_error(failure)

    def _post_send_queue(self) -> None:
        if self._send_queue:
            send_queue, self._send_queue = self._send_queue, []
            self._pipe.post(join_parts(send_queue))

    def _argument_of(self, env: int) -> Any:
        """What the parent sent with the command of an environment, unpickled anew for each."""
        index = self._first + env
        while index not in self._inbox:
            message = self._pipe.receive()
            if message is None:
                self._pipe.wait(1.0)
            else:
                self._inbox.update((env, content) for env, _, content in parts_of(message))
        return pickle.loads(self._inbox.pop(index))

    # --- environments ---

    def _build(self) -> bool:
        """Make the environments and reports about them. Whether all can be worked with."""
        config = self._orders
        fits = True
        env_fns: Any = config.env_fns.fn
        for i, env_fn in enumerate(env_fns):
            try:
                if config.core is not None:
                    os.sched_setaffinity(0, {config.core})
                env = self._envs[i] = env_fn()
                if i + 1 == self._part.size:
                    check_distinct(self._envs, self._first)
                report = self._describe(env)
            except BaseException as error:
                self._let_copies_end(error)
                self._reports.append((self._first + i, MessageKind.ERROR, pack_error(error)))
                return False
            fits = fits and report["same_observation_space"] and report["same_action_space"]
            self._reports.append(self._envelope(i, report))
        return fits

    def _describe(self, env: Env) -> dict[str, Any]:
        config = self._orders
        if config.observation_mode == "same":
            same = config.observation_space == env.observation_space
        else:
            same = goes_with(env.observation_space, config.observation_space)
        return {
            "same_observation_space": same,
            "same_action_space": config.action_space == env.action_space,
            "observation_space": (
                env.observation_space if config.observation_mode == "different" else None
            ),
            "metadata": dict(env.metadata),
            "render_mode": env.render_mode,
        }

    def _bind(self) -> dict[int, Callable[[int], None]]:
        """What to do at each command but a plain step and the last."""
        segment, layout, part = self._orders.segment, self._orders.layout, self._part
        self._actions = bind_action_reader(layout, segment)
        self._stepper = stepper = Stepper(
            self._envs,
            [
                [bind_writer(blocks, self._first + i) for i in range(part.size)]
                for blocks in layout.observation_blocks(segment)
            ],
            StepBlocks(
                part.rewards.view(segment),
                part.terminations.view(segment),
                part.truncations.view(segment),
                first=part.start,
            ),
            self._messages,
            SlotWriter(layout.info_slots.view(segment)[part.start : part.stop]),
            _MODES[self._orders.autoreset_mode],
            self._first,
            keep_terminal,
            self._send,
        )
        return {
            Command.STEP: self._measured_step,
            Command.STEP_WITH_MESSAGE: lambda env: stepper.step(env, self._argument_of(env)),
            Command.RESET: lambda env: stepper.reset(env, seed=None, options=None),
            Command.RESET_WITH_MESSAGE: lambda env: stepper.reset(env, **self._argument_of(env)),
            Command.CALL: self._call,
            Command.SET_ATTR: self._set_attr,
        }

    def _measured_step(self, env: int) -> None:
        assert self._stepper is not None
        step = self._stepper.step
        meter, action = self._meter, self._actions(self._first + env)
        if meter is None:
            # The last step that was measured is behind us in this pass.
            step(env, action)
            return
        meter.measure(step, env, action)
        if not meter.done:
            return
        self._meter = None
        share = meter.share()
        if share is not None:
            self._send_queue.append((self._first + env, MessageKind.WAITS, dumps(share)))
            if not self._messages[env]:
                self._send(env, (None, []))

    def _resume(self, snapshots: dict[int, bytes]) -> None:
        """Go on in place of a worker that died; end with the reason where that cannot be."""
        failure = b""
        if self._stepper is None:
            env, kind, packed = self._reports[-1]
            failure = packed
            if kind is not MessageKind.ERROR:
                error = RuntimeError(f"environment {env} came back with other spaces")
                failure = pack_error(error)
        else:
            same_step = self._orders.autoreset_mode is AutoresetMode.SAME_STEP
            try:
                for i in range(self._part.size):
                    observation = pickle.loads(snapshots[self._first + i])
                    set_lost(self._envs, i, observation, same_step)
            except Exception as error:
                failure = pack_error(error)
        self._pipe.post(join_parts([(self._first, MessageKind.BUILT, failure)]))
        if failure:
            self._write_all()
            sys.exit(1)

    def _write_all(self) -> None:
        while not self._pipe.flush():
            self._pipe.wait(1.0)

    def _call(self, env: int) -> None:
        name, args, kwargs = self._argument_of(env)
        attribute = behind(self._envs[env], name).get_wrapper_attr(name)
        self._send(env, attribute(*args, **kwargs) if callable(attribute) else attribute)

    def _set_attr(self, env: int) -> None:
        self._messages[env] = False
        name, value = self._argument_of(env)
        behind(self._envs[env]).set_wrapper_attr(name, value)

    def _close(self, env: int) -> None:
        self._messages[env] = False
        self._open -= 1
        closing, self._envs[env] = self._envs[env], None
        if closing is not None:
            behind(closing).close()
