"""The broker of the in-memory log: partitions with offsets, transactions, committed offsets, consumer groups. Test-only.

What services rely on is as on Kafka, and tests/log_contract.py holds both to it:
  - records of a transaction take their offsets when they are produced; its end writes a marker, which takes one as well
  - readers see committed records below the last stable offset, the first offset of any transaction that is open
  - a transaction left open is aborted when its time-out has passed, and its producer is fenced from then on
  - a producer that begins fences earlier ones of its transactional id and aborts what they left open
  - a group's partitions move one by one: a member gives up what is another's at its next sign of life, and only then does
    the other get it; a silent member keeps all until its session is over, and its commits are refused after that
"""

import random
from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bat_events.errors import FencedError, LogError, Rebalanced
from bat_events.log.interface import Outgoing, Partition, Record


@dataclass
class Stored:
    """One partition. A slot is a record, or None for a marker; `start` is the first offset that was not deleted."""

    slots: list[Record | None] = field(default_factory=list)
    open: dict[str, int] = field(default_factory=dict)  # transactional id -> first offset of its open transaction
    aborted: set[int] = field(default_factory=set)
    start: int = 0

    @property
    def stable(self) -> int:
        """The last stable offset: readers get no further."""
        return min(self.open.values()) if self.open else len(self.slots)


@dataclass
class Transaction:
    """What a producer has open."""

    begun_ms: int
    written: dict[Partition, list[int]] = field(default_factory=dict)
    offsets: dict[tuple[str, Partition], tuple[int, str]] = field(default_factory=dict)


class Reader(Protocol):
    """Who reads a topic; `news` are the partitions in which there may be something to read."""

    news: set[Partition]


class Member(Protocol):
    """A member of a consumer group, as the broker knows it; `poked` when its share or its offsets may have changed.

    What it shall have (`target`) is set when members come or go; what it has (`granted`) follows, sign of life by sign of life.
    """

    group: str
    topic: str
    granted: set[Partition]
    target: set[Partition]
    silent_since_ms: int | None
    poked: bool

    def revoke(self, places: set[Partition]) -> None: ...

    def assign(self, places: set[Partition]) -> None: ...


Commit = Callable[[str, Transaction], None]
Mark = Callable[[str, Partition, int], None]


@dataclass
class Broker:
    """Everything that is shared.

    `now_ms` is the clock; without one the broker has its own, which moves when somebody waits (`idle`). With the default
    time-out of 0 nothing of a dead producer holds anybody back; `gradual` groups move partitions as a real one does,
    others at once. With `rng` readers get drawn numbers of records from drawn partitions.
    """

    partitions: Mapping[str, int]
    now_ms: Callable[[], int] | None = None
    idle: Callable[[float], None] | None = None
    transaction_timeout_ms: int = 0
    session_timeout_ms: int = 45_000
    gradual: bool = False
    rng: random.Random | None = None
    records: dict[Partition, list[Record]] = field(default_factory=dict)
    """The committed records of each partition, also those beyond the last stable offset."""
    offsets: dict[tuple[str, Partition], int] = field(default_factory=dict)
    notes: dict[tuple[str, Partition], str] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    members: dict[str, list[Member]] = field(default_factory=dict)
    on_commit: list[Commit] = field(default_factory=list)
    on_mark: list[Mark] = field(default_factory=list)
    version: int = 0
    """Moves with every record that comes to be seen."""

    def __post_init__(self) -> None:
        self.stored: dict[Partition, Stored] = {}
        self.transactions: dict[str, Transaction] = {}
        self.readers: dict[str, list[Reader]] = {}
        self._clock_ms = 0
        self.moved = 0  # how often a member gave partitions up
        self.held_back = 0  # how often a reader got less than there was
        self.silent = 0  # members that give no sign of life

    # -- time

    def time_ms(self) -> int:
        """Now."""
        return self._clock_ms if self.now_ms is None else self.now_ms()

    def wait(self, seconds: float) -> None:
        """Somebody waits: time passes."""
        if self.idle is not None:
            self.idle(seconds)
        elif self.now_ms is None:
            self._clock_ms += round(1000 * seconds)
        self.expire()

    def expire(self, acting: str | None = None) -> None:
        """Abort transactions whose time-out has passed, and expel members whose session is over.

        A time-out of 0 passes for everybody but whose transaction it is.
        """
        if not self.transactions and not self.silent:
            return
        now = self.time_ms()
        for name, open_ in list(self.transactions.items()):
            mine = name == acting and not self.transaction_timeout_ms
            if now - open_.begun_ms >= self.transaction_timeout_ms and not mine:
                self.epochs[name] += 1
                self._end(name, committed=False)
        if self.silent:
            for members in list(self.members.values()):
                for member in list(members):
                    if member.silent_since_ms is not None and now - member.silent_since_ms >= self.session_timeout_ms:
                        self.leave(member)

    def next_expiry_ms(self) -> int | None:
        """When the next time-out passes, if nobody does anything."""
        ends = [open_.begun_ms + self.transaction_timeout_ms for open_ in self.transactions.values()]
        if self.silent:
            silent = (m.silent_since_ms for members in self.members.values() for m in members)
            ends += [since + self.session_timeout_ms for since in silent if since is not None]
        return min(ends, default=None)

    # -- partitions

    def all_partitions(self, topics: Sequence[str]) -> list[Partition]:
        """Every partition of the topics."""
        return [(topic, p) for topic in topics for p in range(self.partitions[topic])]

    def part(self, where: Partition) -> Stored:
        """One partition's storage."""
        found = self.stored.get(where)
        if found is None:
            found = self.stored[where] = Stored()
        return found

    def register(self, reader: Reader, topics: Sequence[str]) -> None:
        """From now on a reader is told where there is something to read."""
        for topic in topics:
            self.readers.setdefault(topic, []).append(reader)

    def forget(self, reader: Reader) -> None:
        """Who reads no more is told no more."""
        for readers in self.readers.values():
            if reader in readers:
                readers.remove(reader)

    def _tell(self, where: Partition) -> None:
        self.version += 1
        for reader in self.readers.get(where[0], ()):
            reader.news.add(where)

    def append(self, outputs: Sequence[Outgoing]) -> None:
        """Write committed records outside of any transaction."""
        for out in outputs:
            record = self._store(out)
            self._show(record)
            self._tell(record.place)

    def delete_before(self, where: Partition, offset: int) -> None:
        """Lose the beginning of a partition, as retention or an operator would."""
        self.part(where).start = offset
        self.records[where] = [record for record in self.records.get(where, []) if record.offset >= offset]
        self._tell(where)

    def fetch(self, where: Partition, position: int, most: int) -> tuple[list[Record], int]:
        """Committed records from a position on, and the position after them, past markers and what was aborted.

        Raises LogError where the position is out of range.
        """
        part = self.part(where)
        if not part.start <= position <= len(part.slots):
            raise LogError(
                f"{where[0]}[{where[1]}]: the offset to read, {position}, is out of range: the partition holds "
                f"{part.start} to {len(part.slots)}"
            )
        found: list[Record] = []
        stable = part.stable
        while position < stable and len(found) < most:
            slot = part.slots[position]
            if slot is not None and position not in part.aborted:
                found.append(slot)
            position += 1
        while position < stable and (part.slots[position] is None or position in part.aborted):
            position += 1
        return found, position

    def _store(self, out: Outgoing) -> Record:
        part = self.part((out.topic, out.partition))
        stamp = self.time_ms() if out.timestamp_ms is None else out.timestamp_ms
        record = Record(
            topic=out.topic,
            partition=out.partition,
            offset=len(part.slots),
            key=out.key,
            value=out.value,
            headers=out.headers,
            timestamp_ms=stamp,
        )
        part.slots.append(record)
        return record

    def _show(self, record: Record) -> None:
        rows = self.records.setdefault(record.place, [])
        if not rows or rows[-1].offset < record.offset:
            rows.append(record)
        else:
            insort(rows, record, key=lambda row: row.offset)

    # -- transactions

    def begin_service(self, name: str) -> int:
        """A producer with this transactional id begins; its epoch."""
        self._end(name, committed=False)
        self.epochs[name] = self.epochs.get(name, 0) + 1
        return self.epochs[name]

    def begin(self, name: str, epoch: int) -> None:
        """Open a transaction. Raises FencedError."""
        self._check(name, epoch)
        self.transactions[name] = Transaction(begun_ms=self.time_ms())

    def produce(self, name: str, epoch: int, out: Outgoing) -> None:
        """Write a record into the open transaction. Raises FencedError."""
        open_ = self._check(name, epoch)
        record = self._store(out)
        open_.written.setdefault(record.place, []).append(record.offset)
        self.part(record.place).open.setdefault(name, record.offset)

    def send_offsets(
        self, name: str, epoch: int, group: str, offsets: Mapping[Partition, tuple[int, str]], member: Member | None
    ) -> None:
        """Add a group's offsets. Raises FencedError, or Rebalanced for who is no member any more."""
        open_ = self._check(name, epoch)
        if member is not None and member not in self.members.get(group, []):
            raise Rebalanced(f"group {group}: unknown member: its session was over, others have its partitions")
        open_.offsets.update({(group, where): value for where, value in offsets.items()})

    def commit(self, name: str, epoch: int) -> None:
        """End the transaction for good. Raises FencedError."""
        open_ = self._check(name, epoch)
        for hook in self.on_commit:
            hook(name, open_)
        self._end(name, committed=True)

    def abort(self, name: str, epoch: int) -> None:
        """End the transaction without a trace but gaps. Raises FencedError."""
        self._check(name, epoch)
        self._end(name, committed=False)

    def mark(self, group: str, where: Partition, offset: int, note: str) -> None:
        """A member commits a note, outside of any transaction."""
        for hook in self.on_mark:
            hook(group, where, offset)
        self.offsets[(group, where)] = offset
        self.notes[(group, where)] = note

    def pending(self, group: str, where: Partition) -> bool:
        """Whether an open transaction holds an offset of this partition: until it ends nobody is told the committed one."""
        return any((group, where) in open_.offsets for open_ in self.transactions.values())

    def _check(self, name: str, epoch: int) -> Transaction:
        self.expire(acting=name)
        if self.epochs.get(name) != epoch:
            raise FencedError("a newer instance took over, or the transaction's time was over")
        return self.transactions.get(name) or Transaction(begun_ms=self.time_ms())

    def _end(self, name: str, *, committed: bool) -> None:
        open_ = self.transactions.pop(name, None)
        if open_ is None:
            return
        for where, offsets in open_.written.items():
            part = self.stored[where]
            del part.open[name]
            part.slots.append(None)
            if committed:
                for offset in offsets:
                    record = part.slots[offset]
                    assert record is not None
                    self._show(record)
            else:
                part.aborted.update(offsets)
            self._tell(where)
        for group in {group for group, _ in open_.offsets}:  # somebody may wait for these offsets to be stable
            self._poke(group)
        if committed:
            for place, (offset, note) in open_.offsets.items():
                self.offsets[place] = offset
                self.notes[place] = note

    # -- groups

    def join(self, member: Member) -> None:
        """A member begins, and gets what is free."""
        self.members.setdefault(member.group, []).append(member)
        self.rebalance(member.group, member.topic)

    def leave(self, member: Member) -> None:
        """A member is one no longer; what it had is free."""
        if member.silent_since_ms is not None:
            member.silent_since_ms = None
            self.silent -= 1
        self.members[member.group].remove(member)
        member.granted.clear()
        self.rebalance(member.group, member.topic)

    def set_silent(self, member: Member, *, silent: bool) -> None:
        """From now on a member gives no sign of life, or gives them again."""
        if silent and member.silent_since_ms is None and member in self.members.get(member.group, []):
            member.silent_since_ms, self.silent = self.time_ms(), self.silent + 1
        elif not silent and member.silent_since_ms is not None:
            member.silent_since_ms, self.silent = None, self.silent - 1

    def rebalance(self, group: str, topic: str) -> None:  # noqa: ARG002
        """The group's partitions are to be handed out anew; at once unless it is gradual."""
        self._share_out(group)
        self._poke(group)
        if not self.gradual:
            for _ in range(2):  # first everybody gives up, then everybody gets
                for member in self.members.get(group, []):
                    self.sync(member)

    def sync(self, member: Member) -> None:
        """A member's sign of life: it gives up what shall be another's, then gets what is free and shall be its own."""
        member.poked = False
        gone = member.granted - member.target
        if gone:
            self.moved += 1
            member.revoke(gone)
            member.granted -= gone
            self._poke(member.group)
            member.poked = False
        held = {where for other in self.members[member.group] if other is not member for where in other.granted}
        added = member.target - member.granted - held
        if added:
            member.granted |= added
            member.assign(added)

    def _poke(self, group: str) -> None:
        for member in self.members.get(group, []):
            member.poked = True

    def _share_out(self, group: str) -> None:
        """Set what each member shall have: shares that differ by one at most, and everybody keeps what it can."""
        members = self.members.get(group, [])
        if not members:
            return
        everything = self.all_partitions([members[0].topic])
        least, more = divmod(len(everything), len(members))
        order = sorted(range(len(members)), key=lambda n: -len(members[n].granted))
        quota = {n: least + (place < more) for place, n in enumerate(order)}
        shares = [sorted(member.granted)[: quota[n]] for n, member in enumerate(members)]
        taken = {where for share in shares for where in share}
        rest = [where for where in everything if where not in taken]
        for n, member in enumerate(members):
            lacking = quota[n] - len(shares[n])
            member.target = {*shares[n], *rest[:lacking]}
            rest = rest[lacking:]
