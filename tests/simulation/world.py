"""All services of the small campaign in one thread, over a log in memory, driven by a seeded scheduler. Test-only.

A step of a service is one pass of its real machine. Between steps, and at every commit point within them, the seed decides
what happens: see tests/simulation/chaos.py. A service that dies says nothing: its transaction stays open until its time is
over, its partitions are its own until its session is. A frozen one stands where it is, while all others go on, and comes back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from bat_events.consumers import notary
from bat_events.consumers.trainer import Trainer
from bat_events.deciders.versions import NEWEST
from bat_events.errors import DecodeError, FencedError, ImpossibleEvent, LogError
from bat_events.log.interface import Outgoing, Partition
from bat_events.log.topics import BY_NAME
from bat_events.service import worker as worker_module
from bat_events.service.emit import outgoing
from tests.simulation.chaos import Chaos
from tests.simulation.clock import SimulatedClock
from tests.simulation.deeds import Deeds
from tests.simulation.faults import Death, Injected, Troubles
from tests.simulation.invariants import LOUD, UNDONE, Violation, Watch
from tests.simulation.machines import Machines
from tests.simulation.memory_log import Broker, MemoryWorkerLog, MemoryWriter
from tests.simulation.operator import Operator
from tests.simulation.processes import GROUPS, NOTARIES, REACTORS, WORKERS, Parts, Process
from tests.simulation.small_campaign import (
    CAMPAIGN,
    PARTITIONS,
    RememberingCodec,
    started,
)

_MOST_STEPS = 60_000


class World:
    """One run; see the module."""

    def __init__(self, chaos: Chaos, parts: Parts | None = None, trace: Callable[[str], None] | None = None) -> None:
        self.chaos, self.parts = chaos, parts or Parts()
        self._trace = trace
        self._alarm = 0.0  # before this moment nobody is to be started or thawed
        self.clock = SimulatedClock()
        self.codec = RememberingCodec()
        self.broker = Broker(
            PARTITIONS,
            now_ms=self.clock.now_ms,
            idle=self.clock.sleep,
            transaction_timeout_ms=10_000,
            gradual=True,
            rng=chaos.rng if chaos.on else None,
        )
        self.machines = Machines(self)
        self.troubles = Troubles(chaos, self.say)
        self.watch = Watch(
            self.broker,
            self.codec,
            workers={group: self.machines.handler(group).wants for group in WORKERS},
            reactors=frozenset((*REACTORS, *NOTARIES)),
            handed_out=lambda _: self.acting.log.positions if self.acting and self.acting.log else {},
        )
        self.broker.on_commit.append(self.watch.commit)
        self.broker.on_mark.append(self.watch.passed)
        self.operator, self._deeds = Operator(self), Deeds(self)
        folded = {topic for kind in (*NEWEST, Trainer) for topic in kind.inputs}
        self.consumed = folded | {self.machines.handler(group).topic for group in WORKERS}
        self.acting: Process | None = None
        self._depth = 0
        self.processes: list[Process] = []
        for group in GROUPS:
            for _ in range(WORKERS.get(group, 1)):
                self.add(group)
        self.steps = 0

    # -- the run

    def run(self) -> None:
        """Until everybody has come to rest. Raises Violation."""
        with self._simulated():
            MemoryWriter(self.broker, "campaign").publish([self._first()])
            self._go_on(until=None)
            if self.chaos.on:
                self.chaos.happened.update(
                    {"partitions moved": self.broker.moved, "records held back": self.broker.held_back}
                )
            self._at_rest()

    def say(self, what: str) -> None:
        """A line of the trace."""
        if self._trace is not None:
            self._trace(f"{self.clock.at:9.3f} {'  ' * self._depth}{what}")

    @contextmanager
    def _simulated(self) -> Iterator[None]:
        """What has no parameter: how long a worker looks at a running effect, and where a notary keeps its heads."""
        with ExitStack() as stack:
            stack.enter_context(patch.object(worker_module, "_LOOK_S", 0.0))
            stack.enter_context(patch.object(notary, "append_heads", lambda heads, more: heads.kept.extend(more)))
            stack.enter_context(patch.object(notary, "read_heads", lambda heads: list(heads.kept)))
            stack.enter_context(patch.object(notary, "leaves_path", lambda *_: None))
            stack.enter_context(patch.object(notary, "keep_leaves", lambda *_: None))
            for make in self.parts.patches:
                stack.enter_context(make())
            yield

    def _go_on(self, until: float | None) -> None:
        """Step services in a drawn order; where none has anything to do, go to the next moment at which one will."""
        while until is None or self.clock.at < until:
            self._wake()
            now = self.clock.at
            ready = [p for p in self.processes if p.ready(now)]
            if ready:
                self._step(self._choose(ready))
                continue
            moments = [at for process in self.processes for at in process.due] + self.operator.due
            expiry = self.broker.next_expiry_ms()
            if expiry is not None:
                moments.append(self._seconds(expiry))
            ahead = [at for at in moments if at > self.clock.at]
            if not ahead:
                break
            self.clock.at = min(ahead)
            self.broker.expire()
        if until is not None:
            self.clock.at = max(self.clock.at, until)

    def _seconds(self, at_ms: int) -> float:
        return (at_ms - self.clock.now_ms()) / 1000 + self.clock.at + 0.001

    def _wake(self) -> None:
        self.operator.act()
        now = self.clock.at
        if now < self._alarm:
            return
        for process in self.processes:
            if process.up_at is not None and process.up_at <= now and process.thaws_at is None:
                self._start(process)
            if process.thaws_at is not None and process.thaws_at <= now and process is not self.acting:
                self._thaw(process)
        self._alarm = min((at for p in self.processes for at in (p.up_at, p.thaws_at) if at is not None), default=1e9)

    def _choose(self, ready: Sequence[Process]) -> Process:
        if not self.chaos.on:
            return ready[0]
        process = self.chaos.rng.choice(ready)
        for _ in range(3):  # who is slow is seldom chosen
            if not process.slow or self.chaos.rng.random() < 0.1:
                break
            process = self.chaos.rng.choice(ready)
        return process

    def _step(self, process: Process) -> None:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise Violation(UNDONE, f"it does not come to rest in {_MOST_STEPS} steps")
        if self.chaos.on:
            self.clock.at += self.chaos.rng.random() * 0.01
            self.chaos.at_turn(self._deeds.all)
            if process.machine is None or process.thaws_at is not None:
                return
        if process.effect is not None:
            process.effect.look()
        before, self.acting = self.acting, process
        process.again = getattr(process.log, "poked", False)  # what comes of it is seen in the step after
        try:
            worked = process.machine.step(0.0)
        except Death:
            self._bury(process)
        except FencedError:
            self.chaos.tell("fenced")
            self.say(f"{process.name} is fenced and ends")
            self.end(process)
        except (DecodeError, ImpossibleEvent) as error:
            raise Violation(LOUD, f"{process.name}: {type(error).__name__}: {error}") from error
        except (LogError, Injected) as error:
            self.say(f"{process.name} halts: {error}")
            self.end(process)
        except Violation:
            raise
        except Exception as error:
            raise Violation(LOUD, f"{process.name}: {type(error).__name__}: {error}") from error
        else:
            due = process.group in NOTARIES and bool(process.machine._due)  # it may have read the last it waits for
            process.idle = not worked and not process.again and not due
        finally:
            self.acting = before

    # -- processes

    def add(self, group: str) -> Process:
        """Another process of a group; it starts at once."""
        number = 1 + max((p.number for p in self.processes if p.group == group), default=-1)
        process = Process(group, number, up_at=self.clock.at)
        self._alarm = 0.0
        if self.chaos.on and self.chaos.rng.random() < self.chaos.slow_share:
            process.slow = True
            self.chaos.tell("service slow")
        process.slow |= group in NOTARIES  # nobody waits for them, and they read everything
        self.processes.append(process)
        return process

    def _start(self, process: Process) -> None:
        process.starts += 1
        process.up_at, process.idle = None, False
        self.say(f"{process.name} starts")
        self.machines.start(process)

    def _bury(self, process: Process) -> None:
        """It ended without a word: what it had open stays open, and what it held is held, until time passes."""
        self.chaos.tell("died")
        self.say(f"{process.name} dies")
        if isinstance(process.log, MemoryWorkerLog):
            self.broker.set_silent(process.log, silent=True)
        self._down(process)

    def end(self, process: Process) -> None:
        """It ended in good order."""
        process.log.close()
        self._down(process)

    def _down(self, process: Process) -> None:
        for reader in process.readers:
            self.broker.forget(reader)
        process.machine, process.log, process.effect = None, None, None
        if process.replaced:
            self.processes.remove(process)
        else:
            process.up_at, self._alarm = self.clock.at + self.chaos.restart_s(), 0.0

    def freeze(self, process: Process, seconds: float) -> None:
        """It stands where it is for some seconds."""
        process.thaws_at, self._alarm = self.clock.at + seconds, 0.0
        if isinstance(process.log, MemoryWorkerLog):
            self.broker.set_silent(process.log, silent=True)

    def _thaw(self, process: Process) -> None:
        process.thaws_at, process.idle = None, False
        self.say(f"{process.name} goes on")
        if isinstance(process.log, MemoryWorkerLog):
            if process.log not in self.broker.members[process.group]:
                self.chaos.tell("session over")
            self.broker.set_silent(process.log, silent=False)

    def crash(self, process: Process) -> Callable[[str], None]:
        """The crash points of a process."""

        def point(name: str) -> None:
            blow = self.chaos.at_point(process.group, name)
            if self._trace is not None:
                self.say(f"{process.name} {name}{'' if blow is None else f': {blow}'}")
            if blow == "dies":
                raise Death(name)
            if blow == "aborts":
                process.again = True
                lost = name == "committed"
                self.chaos.tell("answer to a commit lost" if lost else "transaction refused by the broker")
                raise LogError("the broker did not answer" if lost else "the broker refused")
            if blow == "freezes" and self._depth == 0:
                self._stand_still(process)

        return point

    def _stand_still(self, process: Process) -> None:
        """In the middle of a transaction: everybody else goes on, perhaps a new instance too, then this one continues."""
        seconds = self.chaos.freeze_s()
        self.chaos.tell("frozen in a transaction")
        self.say(f"{process.name} stands still for {seconds:g} s")
        self.freeze(process, seconds)
        if process.group not in WORKERS and self.chaos.rng.random() < 0.5:
            self.take_over(process)
        self._depth += 1
        epochs = dict(self.broker.epochs)
        self._go_on(until=process.thaws_at)
        self._depth -= 1
        if any(self.broker.epochs[name] != epoch for name, epoch in epochs.items() if name.startswith(process.group)):
            self.chaos.tell("transaction timed out")
        self._thaw(process)

    def take_over(self, process: Process) -> None:
        """Another instance of a service is started beside this one."""
        if process.replaced:
            return
        self.chaos.tell("taken over")
        process.replaced = True
        self.add(process.group)

    def _first(self) -> Outgoing:
        return outgoing(
            started(), source="bat/campaign", logic="campaign/1", time=self.clock.now(), partitions=PARTITIONS
        )

    # -- the end

    def _at_rest(self) -> None:
        """Nothing is parked, nothing is unread, nothing is open."""
        letters = self.operator.waiting()
        if letters:
            raise Violation(
                UNDONE, f"dead letters are open: {[(x.event.service, x.place, x.event.cause) for x in letters]}"
            )
        if self.broker.transactions:
            raise Violation(UNDONE, f"transactions are open: {sorted(self.broker.transactions)}")
        for group in WORKERS:
            topic = self.machines.handler(group).topic
            for where in self.broker.all_partitions([topic]):
                self._all_passed(group, where)

    def _all_passed(self, group: str, where: Partition) -> None:
        at = self.broker.offsets.get((group, where), 0)
        left = [record.offset for record in self.broker.records.get(where, []) if record.offset >= at]
        if left:
            raise Violation(UNDONE, f"{group} stands at {where[0]}[{where[1]}]@{at}, and {left[:5]} are behind it")


def check_tables(names: Mapping[str, int]) -> None:
    """Every service of the registry but the auditors is simulated, and under its own name."""
    missing = [name for name in names if name not in GROUPS and "auditor" not in name]
    assert not missing, missing
    assert all(topic in BY_NAME for topic in PARTITIONS)
    assert CAMPAIGN
