"""The host threads of one rank: scheduler, worker, copy-worker, each written as the small program it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simulator.forward import Batch, Submission, submissions_of
from simulator.load import Step
from simulator.machine import GpuWork, HostThread, Machine, Signal, Stream
from simulator.noise import Noise, StepNoise
from simulator.rows import (
    COMPUTE,
    COPIES,
    COPY_WORKER,
    EVENT_RECORD,
    EVENT_SYNC,
    GPU,
    HAND_OVER,
    HOST_ALLOC,
    INPUTS,
    JOB_WAIT,
    SCHEDULER,
    STREAM_WAIT,
    WORKER,
    Form,
    Row,
    copy_call,
    gpu_copy,
    step_mark,
)
from simulator.run import Run

_COPY_CALL: Final = {direction: copy_call(direction) for direction in ("h2d", "d2h")}
_GPU_COPY: Final = {direction: gpu_copy(direction) for direction in ("h2d", "d2h")}
_EVENTS: Final = {COMPUTE: 10, COPIES: 20, INPUTS: 30}
"""Programs use the events of a stream in turn: numbers of the first of each pair."""
_FORWARD_JOB, _COPY_JOB = 1, 2


class Job:
    """Something that one thread hands to another, and gets back."""

    __slots__ = ("back", "event", "handed", "ref")

    def __init__(self, ref: int) -> None:
        self.ref = ref
        self.handed = Signal()
        self.back = Signal()
        self.event: GpuWork | None = None


class Server:
    """One rank: its threads, its streams, and what they did (`rows()`, `step_begins`)."""

    def __init__(self, machine: Machine, rank: int, run: Run, steps: Sequence[Step]) -> None:
        self._host_rows: list[Row] = []
        self._gpu: list[tuple[GpuWork, Form, int, int, int, int, int]] = []
        self.step_begins: list[float] = []
        self._machine, self._rank, self._steps = machine, rank, steps
        self._load, self._costs, self._recorder = run.load, run.costs, run.recorder
        self._noise = Noise(run.seed, rank, spread=run.noise, wander=run.wander)
        self._streams = {number: Stream() for number in (COMPUTE, COPIES, INPUTS)}
        self._in_flight: list[Signal] = []
        self._correlation = 0
        self._forward_jobs = [Job(4 * step.number + _FORWARD_JOB) for step in steps]
        self._copy_jobs = [Job(4 * step.number + _COPY_JOB) for step in steps]
        machine.start(self._scheduler())
        if run.load.forward == "worker":
            machine.start(self._worker())
        if run.load.readback == "worker":
            machine.start(self._copy_worker())

    def rows(self) -> list[Row]:
        """Everything that happened, once the machine has run: calls, hand-overs, GPU work, steps."""
        rank = self._rank
        gpu = [Row(form, work.start, work.end, rank, GPU, *rest) for work, form, *rest in self._gpu]
        begins = self.step_begins
        marks = [
            Row(step_mark(step.label), begin, end, rank, SCHEDULER, step=step.number)
            for step, begin, end in zip(self._steps, begins, begins[1:], strict=False)
        ]
        return self._host_rows + gpu + marks

    # ---- threads

    def _scheduler(self) -> HostThread:
        load, behind = self._load, 0 if self._load.readback == "sync" else 1
        for step in self._steps:
            noise = self._noise.of_step(step.number)
            self.step_begins.append(self._machine.now)
            yield from self._compute(load.schedule_us, noise)
            if load.forward == "worker":
                self._hand_over(self._forward_jobs[step.number], SCHEDULER)
            else:
                yield from self._run_batch(step, SCHEDULER, noise)
            if step.number >= behind:
                yield from self._await_tokens(self._steps[step.number - behind], noise)
                yield from self._compute(load.process_us, noise)
        self.step_begins.append(self._machine.now)

    def _worker(self) -> HostThread:
        for step in self._steps:
            # A thread reads factors of its own steps: what another one draws meanwhile does not shift them.
            noise = self._noise.of_step(step.number + len(self._steps))
            job = self._forward_jobs[step.number]
            yield from self._await(job.handed, job, WORKER)
            yield from self._run_batch(step, WORKER, noise)
            if self._load.readback == "sync" and job.event is not None:
                yield from self._sync(job.event, self._event(COMPUTE, step), WORKER, noise)
            self._hand_back(job, WORKER)

    def _copy_worker(self) -> HostThread:
        for step in self._steps:
            noise = self._noise.of_step(step.number + 2 * len(self._steps))
            job = self._copy_jobs[step.number]
            yield from self._await(job.handed, job, COPY_WORKER)
            if job.event is not None:
                yield from self._wait_for_forward(job.event, step, noise)
            yield from self._copy("d2h", self._load.token_bytes, COPIES, COPY_WORKER, noise)
            event = self._marker()
            yield from self._record(event, COPIES, step, COPY_WORKER, noise)
            yield from self._sync(event, self._event(COPIES, step), COPY_WORKER, noise)
            self._hand_back(job, COPY_WORKER)

    def _wait_for_forward(self, event: GpuWork, step: Step, noise: StepNoise) -> HostThread:
        ref = self._event(COMPUTE, step)
        if self._load.worker_waits == "host":
            yield from self._sync(event, ref, COPY_WORKER, noise)
        else:
            yield from self._stream_wait(COPIES, event, ref, COPY_WORKER, noise)

    def _run_batch(self, step: Step, thread: int, noise: StepNoise) -> HostThread:
        """Inputs, forward, and the begin of the read-back."""
        yield from self._inputs(step, thread, noise)
        for submission in submissions_of(Batch(self._load, self._costs, step, noise)):
            yield from self._compute(submission.dispatch_us, noise)
            yield from self._submit(submission, thread, noise)
        if self._load.readback != "worker":
            yield from self._copy("d2h", self._load.token_bytes, COMPUTE, thread, noise)
        event = self._marker()
        yield from self._record(event, COMPUTE, step, thread, noise)
        self._forward_jobs[step.number].event = event
        if self._load.readback == "worker":
            job = self._copy_jobs[step.number]
            job.event = event
            self._hand_over(job, thread)

    def _inputs(self, step: Step, thread: int, noise: StepNoise) -> HostThread:
        load = self._load
        for _ in range(load.host_allocs):
            begin = self._machine.now
            yield from self._call(self._costs.host_alloc_us, noise)
            self._log(HOST_ALLOC, begin, thread, size=load.input_bytes)
            yield from self._after_call()
        stream = INPUTS if load.inputs_aside else COMPUTE
        for _ in range(load.input_copies):
            yield from self._compute(load.dispatch_us, noise)
            yield from self._copy("h2d", load.input_bytes, stream, thread, noise)
        if load.inputs_aside and load.input_copies:
            event = self._marker()
            yield from self._record(event, INPUTS, step, thread, noise)
            yield from self._stream_wait(COMPUTE, event, self._event(INPUTS, step), thread, noise)

    def _await_tokens(self, step: Step, noise: StepNoise) -> HostThread:
        """Waits for the tokens of a step, from whoever brings them."""
        load = self._load
        forward = self._forward_jobs[step.number]
        if load.readback == "worker":
            job = self._copy_jobs[step.number]
            yield from self._await(job.back, job, SCHEDULER)
            return
        if load.forward == "worker":
            yield from self._await(forward.back, forward, SCHEDULER)
            if load.readback == "sync":
                return
        if forward.event is not None:
            yield from self._sync(forward.event, self._event(COMPUTE, step), SCHEDULER, noise)

    # ---- calls

    def _submit(self, submission: Submission, thread: int, noise: StepNoise) -> HostThread:
        begin = self._machine.now
        yield from self._call(submission.own_us, noise)
        yield from self._enter_queue(submission.pieces[-1].work)
        correlation = self._new_correlation()
        available = self._machine.now + noise.vary("call", self._costs.start_us)
        for position, piece in enumerate(submission.pieces):
            node = position if submission.graph >= 0 else -1
            self._machine.submit(self._streams[COMPUTE], piece.work, available)
            self._gpu.append(
                (piece.work, piece.form, COMPUTE, correlation, submission.graph, node, piece.size)
            )
        size = submission.pieces[0].size if submission.form.operation == "memset" else -1
        self._log(
            submission.form,
            begin,
            thread,
            COMPUTE,
            correlation=correlation,
            graph=submission.graph,
            size=size,
        )
        yield from self._after_call()

    def _copy(self, direction: str, size: int, stream: int, thread: int, noise: StepNoise) -> HostThread:
        costs = self._costs
        work = GpuWork(noise.vary("copy", costs.transfer_us + size / costs.transfer_bytes_per_us))
        crypto_us = noise.vary("copy", costs.crypto_us + size / costs.crypto_bytes_per_us)
        correlation = self._new_correlation()
        self._gpu.append((work, _GPU_COPY[direction], stream, correlation, -1, -1, size))
        begin = self._machine.now
        yield from self._call(costs.copy_us, noise)
        if direction == "h2d" and crypto_us:
            yield crypto_us
        available = self._machine.now + noise.vary("call", costs.start_us)
        self._machine.submit(self._streams[stream], work, available)
        if costs.copies_block:
            yield work.done
            yield costs.return_us
        if direction == "d2h" and crypto_us:
            yield crypto_us
        self._log(_COPY_CALL[direction], begin, thread, stream, correlation=correlation, size=size)
        yield from self._after_call()

    def _record(self, event: GpuWork, stream: int, step: Step, thread: int, noise: StepNoise) -> HostThread:
        begin = self._machine.now
        yield from self._call(self._costs.event_us, noise)
        self._machine.submit(self._streams[stream], event, self._machine.now)
        self._log(EVENT_RECORD, begin, thread, stream, ref=self._event(stream, step))
        yield from self._after_call()

    def _stream_wait(
        self, stream: int, event: GpuWork, ref: int, thread: int, noise: StepNoise
    ) -> HostThread:
        begin = self._machine.now
        yield from self._call(self._costs.event_us, noise)
        barrier = GpuWork(0.0)
        barrier.after = (event.done,)
        self._machine.submit(self._streams[stream], barrier, self._machine.now)
        self._log(STREAM_WAIT, begin, thread, stream, ref=ref)
        yield from self._after_call()

    def _sync(self, event: GpuWork, ref: int, thread: int, noise: StepNoise) -> HostThread:
        begin = self._machine.now
        yield event.done
        yield from self._call(self._costs.sync_us, noise)
        self._log(EVENT_SYNC, begin, thread, ref=ref)
        yield from self._after_call()

    def _call(self, us: float, noise: StepNoise) -> HostThread:
        """A call's own time, with what recording it adds inside of its row."""
        yield noise.vary("call", us) + self._recorder.tax_inside_us

    def _after_call(self) -> HostThread:
        if self._recorder.tax_outside_us:
            yield self._recorder.tax_outside_us

    def _compute(self, us: float, noise: StepNoise) -> HostThread:
        if us:
            yield noise.vary("host", us * self._costs.cpu)

    def _enter_queue(self, work: GpuWork) -> HostThread:
        """Where the queue has a depth, waits within the call until there is a place in it."""
        depth = self._costs.depth
        if depth:
            self._in_flight.append(work.done)
            if len(self._in_flight) > depth:
                yield self._in_flight[-1 - depth]

    # ---- threads among themselves

    def _hand_over(self, job: Job, thread: int) -> None:
        self._log(HAND_OVER, self._machine.now, thread, ref=job.ref)
        job.handed.fire()

    def _hand_back(self, job: Job, thread: int) -> None:
        self._log(HAND_OVER, self._machine.now, thread, ref=job.ref)
        job.back.fire()

    def _await(self, signal: Signal, job: Job, thread: int) -> HostThread:
        begin = self._machine.now
        if not signal.fired:
            yield signal
            if self._load.wake_us:
                yield self._load.wake_us
        self._log(JOB_WAIT, begin, thread, ref=job.ref)

    # ---- bookkeeping

    @staticmethod
    def _marker() -> GpuWork:
        return GpuWork(0.0)

    @staticmethod
    def _event(stream: int, step: Step) -> int:
        return _EVENTS[stream] + step.number % 2

    def _new_correlation(self) -> int:
        self._correlation += 1
        return self._correlation

    def _log(self, form: Form, begin: float, thread: int, stream: int = -1, **values: int) -> None:
        self._host_rows.append(Row(form, begin, self._machine.now, self._rank, thread, stream, **values))
