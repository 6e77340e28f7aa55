"""What any log must promise the service loop: one suite, run against the in-memory log and against the real Kafka."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bat_events.errors import FencedError, LogError, Rebalanced
from bat_events.log.interface import Outgoing, Partition, Record

REACTOR_TOPICS = ("group", "round")
WORKER_TOPIC = "bank.request"


def out(topic: str, number: int, partition: int = 0) -> Outgoing:
    """A small record."""
    return Outgoing(
        topic=topic, partition=partition, key=b"k%d" % number, value=b"v%d" % number, headers=(("h", b"%d" % number),)
    )


def nothing(_: str) -> None:
    """No crash."""


def dies(point: str) -> Callable[[str], None]:
    """Raise at a crash point."""

    def crash(name: str) -> None:
        if name == point:
            raise KeyboardInterrupt(point)

    return crash


def refused(point: str) -> Callable[[str], None]:
    """The broker refuses something at a crash point."""

    def crash(name: str) -> None:
        if name == point:
            raise LogError(point)

    return crash


class LogContract:
    """Subclasses give the logs, and what only their brokers can do."""

    transaction_s: float
    """How long a transaction may be left open, once `shorten_transactions` was called."""

    def reactor(self, service: str = "s") -> Any:
        raise NotImplementedError

    def worker(self, service: str = "w", instance: str = "a") -> Any:
        raise NotImplementedError

    def write(self, outputs: Sequence[Outgoing]) -> None:
        raise NotImplementedError

    def kill(self, log: Any) -> None:
        """End a log's process without a farewell, as far as the log can tell."""
        raise NotImplementedError

    def shorten_transactions(self) -> None:
        """From now on the logs that are made let their transactions be open for `transaction_s` only."""
        raise NotImplementedError

    def cut(self, where: Partition, offset: int) -> None:
        """Lose everything before an offset."""
        raise NotImplementedError

    @staticmethod
    def read(log: Any, count: int, seconds: float = 30.0) -> list[Record]:
        """Exactly `count` records, and no more that come at once."""
        found: list[Record] = []
        deadline = time.monotonic() + seconds
        while len(found) < count and time.monotonic() < deadline:
            found += log.poll(100, 0.1)
        found += log.poll(100, 0.1)
        assert len(found) == count
        return found

    @staticmethod
    def wait(condition: Callable[[], bool], log: Any, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not come to pass"
            assert log.poll(1, 0.1) == []

    def test_records_come_whole_and_in_order(self) -> None:
        self.write([out("group", n, partition=n % 2) for n in range(10)])
        log = self.reactor()
        found = self.read(log, 10)
        for partition in (0, 1):
            mine = [r for r in found if r.partition == partition]
            assert [r.offset for r in mine] == sorted(r.offset for r in mine)
            assert [r.value for r in mine] == [b"v%d" % n for n in range(10) if n % 2 == partition]
        (first,) = [r for r in found if r.value == b"v0"]
        assert first.headers == (("h", b"0"),)
        assert first.key == b"k0"
        assert {r.topic for r in found} == {"group"}
        log.close()

    def test_outputs_and_offsets_are_committed_together(self) -> None:
        self.write([out("group", 0)])
        log = self.reactor()
        (record,) = self.read(log, 1)
        log.commit([out("round", 7)], {("group", 0): record.offset + 1}, nothing)
        log.close()
        again = self.reactor()
        assert again.committed()[("group", 0)] == record.offset + 1
        assert again.committed()[("group", 1)] == 0
        assert [r.value for r in self.read(again, 2) if r.topic == "round"] == [b"v7"]
        again.close()

    @pytest.mark.parametrize("point", ["begun", "produced", "offsets-sent"])
    def test_nothing_of_an_unfinished_transaction_is_ever_seen(self, point: str) -> None:
        self.write([out("group", 0)])
        log = self.reactor()
        (record,) = self.read(log, 1)
        with pytest.raises(KeyboardInterrupt):
            log.commit([out("round", 7)], {("group", 0): record.offset + 1}, dies(point))
        self.kill(log)
        again = self.reactor()
        assert again.committed()[("group", 0)] == 0
        assert [r.topic for r in self.read(again, 1)] == ["group"]
        again.close()

    def test_a_new_instance_fences_the_old_one(self) -> None:
        old = self.reactor()
        new = self.reactor()
        with pytest.raises(FencedError):
            old.commit([out("round", 1)], {}, nothing)
        new.commit([out("round", 2)], {}, nothing)
        assert [r.value for r in self.read(new, 1)] == [b"v2"]
        new.close()

    def test_a_reader_knows_when_it_has_caught_up(self) -> None:
        self.write([out("group", n) for n in range(5)])
        log = self.reactor()
        found: list[Record] = []
        deadline = time.monotonic() + 30
        while not log.caught_up():
            assert time.monotonic() < deadline
            found += log.poll(2, 0.1)
        assert len(found) == 5
        log.close()

    def test_workers_share_partitions_and_no_record_goes_to_two(self) -> None:
        first = self.worker(instance="a")
        self.wait(lambda: len(first.assigned()) == 4, first)
        second = self.worker(instance="b")
        self.wait(lambda: first.poll(1, 0.0) == [] and len(second.assigned()) == 2, second)
        self.wait(lambda: len(first.assigned()) == 2, first)
        assert not first.assigned() & second.assigned()
        self.write([out(WORKER_TOPIC, n, partition=n % 4) for n in range(8)])
        found = self.read(first, 4) + self.read(second, 4)
        assert sorted(r.value for r in found) == [b"v%d" % n for n in range(8)]
        first.close()
        second.close()

    def test_a_worker_goes_on_from_the_committed_offset(self) -> None:
        self.write([out(WORKER_TOPIC, n) for n in range(3)])
        first = self.worker(instance="a")
        record = self.read(first, 3)[0]
        first.commit([out("bank.state", 1)], {(WORKER_TOPIC, 0): record.offset + 1}, nothing)
        first.close()
        second = self.worker(instance="b")
        assert [r.value for r in self.read(second, 2)] == [b"v1", b"v2"]
        second.close()

    def test_a_worker_cannot_commit_a_partition_that_is_not_its_own(self) -> None:
        first = self.worker(instance="a")
        self.wait(lambda: len(first.assigned()) == 4, first)
        foreign: Partition = (WORKER_TOPIC, 77)
        with pytest.raises(Rebalanced, match=r"given to another"):
            first.commit([], {foreign: 1}, nothing)
        first.close()

    def test_a_record_is_fetched_from_its_place_and_nothing_else_is(self) -> None:
        self.write([out(WORKER_TOPIC, n) for n in range(3)])
        log = self.worker()
        (_, second, _) = self.read(log, 3)
        assert log.fetch((WORKER_TOPIC, 0), second.offset) == second
        with pytest.raises(LogError):
            log.fetch((WORKER_TOPIC, 0), second.offset + 50)
        log.close()

    def test_a_note_goes_with_its_offset_to_the_next_owner(self) -> None:
        where = (WORKER_TOPIC, 0)
        self.write([out(WORKER_TOPIC, n) for n in range(3)])
        first = self.worker(instance="a")
        record = self.read(first, 3)[0]
        assert where in first.gained()
        assert first.gained() == frozenset()
        assert first.standing(where) == (0, "")
        first.commit([], {where: record.offset + 1}, nothing, {where: "letters=1"})
        first.mark(where, record.offset + 1, "letters=1;try=1:1")
        assert first.standing(where) == (record.offset + 1, "letters=1;try=1:1")
        first.close()  # in good order: nobody died of anything
        second = self.worker(instance="b")
        again = self.read(second, 2)[0]
        assert second.standing(where) == (again.offset, "letters=1")
        second.mark(where, again.offset, "letters=1;try=1:1")
        second.commit([], {where: again.offset + 1}, nothing)
        assert second.standing(where) == (again.offset + 1, "")
        second.close()

    def test_a_reactor_knows_when_everything_committed_was_handed_out(self) -> None:
        self.write([out("group", n) for n in range(3)])
        log = self.reactor()
        self.read(log, 3)
        log.commit([out("round", 1)], {}, nothing)
        deadline = time.monotonic() + 30
        seen = 0
        while not log.settled():
            seen += len(log.poll(10, 0.1))
            assert time.monotonic() < deadline
        assert seen + len(log.poll(10, 0.1)) == 1
        log.close()

    def test_keeping_alive_takes_no_record(self) -> None:
        self.write([out(WORKER_TOPIC, n) for n in range(4)])
        log = self.worker()
        deadline = time.monotonic() + 30
        found: list[Record] = []
        while not found:
            assert time.monotonic() < deadline
            found = log.poll(1, 0.1)
        for _ in range(20):
            log.keep_alive()
        assert [r.value for r in found + self.read(log, 3)] == [b"v0", b"v1", b"v2", b"v3"]
        log.close()

    @pytest.mark.parametrize("point", ["begun", "produced", "offsets-sent"])
    def test_what_the_broker_refuses_is_aborted_and_the_log_goes_on(self, point: str) -> None:
        self.write([out("group", 0)])
        log = self.reactor()
        (record,) = self.read(log, 1)
        with pytest.raises(LogError, match="nothing was kept"):
            log.commit([out("round", 7)], {("group", 0): record.offset + 1}, refused(point))
        log.commit([out("round", 8)], {("group", 0): record.offset + 1}, nothing)
        assert [r.value for r in self.read(log, 1)] == [b"v8"]
        log.close()
        again = self.reactor()
        assert again.committed()[("group", 0)] == record.offset + 1
        again.close()

    def test_an_answer_that_is_lost_changes_nothing_about_what_was_committed(self) -> None:
        self.write([out("group", 0)])
        log = self.reactor()
        (record,) = self.read(log, 1)
        with pytest.raises(LogError, match="committed"):
            log.commit([out("round", 7)], {("group", 0): record.offset + 1}, refused("committed"))
        log.close()
        again = self.reactor()
        assert again.committed()[("group", 0)] == record.offset + 1
        assert [r.value for r in self.read(again, 2) if r.topic == "round"] == [b"v7"]
        again.close()

    def test_ends_of_transactions_leave_gaps_and_positions_pass_them(self) -> None:
        self.write([out("group", 0), out("group", 1)])
        self.write([out("group", 2)])
        log = self.reactor()
        found = self.read(log, 3)
        assert found[1].offset == found[0].offset + 1
        assert found[2].offset == found[1].offset + 2  # the first transaction's marker stands between
        self.wait(log.caught_up, log)
        assert log.positions[("group", 0)] == found[2].offset + 2  # and the second one's is passed, too
        assert log.end_offsets()[("group", 0)] == log.positions[("group", 0)]
        log.close()

    def test_an_aborted_transaction_leaves_a_gap_and_nothing_else(self) -> None:
        writer = self.reactor("another")
        with pytest.raises(LogError):
            writer.commit([out("group", 6), out("group", 7)], {}, refused("offsets-sent"))
        writer.commit([out("group", 8)], {}, nothing)
        log = self.reactor()
        assert [r.value for r in self.read(log, 1)] == [b"v8"]
        self.wait(log.caught_up, log)
        assert log.settled()
        log.close()
        writer.close()

    def test_a_transaction_left_open_holds_readers_back_until_its_time_is_over(self) -> None:
        self.shorten_transactions()
        killed = self.reactor("killed")
        with pytest.raises(KeyboardInterrupt):
            killed.commit([out("group", 6)], {}, dies("offsets-sent"))
        self.kill(killed)
        reader = self.reactor("reader")
        self.wait(reader.caught_up, reader)
        behind = [out("group", 7), out("group", 8, partition=1)]
        self.write(behind)
        free = self.read(reader, 1)
        assert [r.value for r in free] == [b"v8"], "other partitions are not held back"
        self.wait(reader.settled, reader)  # what is held back is not committed yet, as far as readers are concerned
        assert [r.value for r in self.read(reader, 1, seconds=self.transaction_s + 20)] == [b"v7"]
        reader.close()

    def test_a_rebalance_moves_only_what_it_must(self) -> None:
        first = self.worker(instance="a")
        self.wait(lambda: len(first.assigned()) == 4, first)
        self.write([out(WORKER_TOPIC, n, partition=n) for n in range(4)])
        self.read(first, 4)
        second = self.worker(instance="b")
        found: list[Record] = []
        deadline = time.monotonic() + 30
        while len(found) < 2:
            assert time.monotonic() < deadline
            assert first.poll(10, 0.1) == [], "what it keeps is not read again"
            found += second.poll(10, 0.1)
        assert {r.partition for r in found} == {p for _, p in second.assigned()}, "what it gives is, by the other"
        assert len(first.assigned()) == len(second.assigned()) == 2
        first.close()
        second.close()

    def test_a_member_keeps_a_partition_until_it_has_given_it_up(self) -> None:
        first = self.worker(instance="a")
        self.wait(lambda: len(first.assigned()) == 4, first)
        self.write([out(WORKER_TOPIC, n, partition=n) for n in range(4)])
        records = self.read(first, 4)
        second = self.worker(instance="b")
        for _ in range(10):
            assert second.poll(10, 0.1) == []
        assert not second.assigned(), "the first has not been told: it shows no sign of life"
        first.commit([], {r.place: r.offset + 1 for r in records}, nothing)
        self.wait(lambda: second.poll(1, 0.0) == [] and len(second.assigned()) == 2, first)
        for _ in range(5):
            assert second.poll(10, 0.1) == [], "all was done before it moved"
        first.close()
        second.close()

    def test_what_came_of_a_partition_that_went_meanwhile_is_forgotten(self) -> None:
        """Or else its position would say, once it is back, that all before it is done."""
        first = self.worker(instance="a")
        self.wait(lambda: len(first.assigned()) == 4, first)
        self.write([out(WORKER_TOPIC, n, partition=n % 4) for n in range(12)])
        self.read_one(first)
        for _ in range(16):
            first.keep_alive()  # its work takes so long that all others come meanwhile
        second = self.worker(instance="b")
        deadline = time.monotonic() + 60
        theirs: list[Record] = []
        while len(theirs) < 6:
            assert time.monotonic() < deadline
            first.keep_alive()
            theirs += second.poll(1, 0.0)
        while first.poll(1, 0.5):
            pass
        assert not set(first.positions) & second.assigned()
        second.close()  # without having done anything
        while len(first.assigned()) < 4:
            assert time.monotonic() < deadline
            first.keep_alive()
        found = self.read(first, 6)
        assert sorted(r.offset for r in found) == [0, 0, 1, 1, 2, 2]
        first.close()

    @staticmethod
    def read_one(log: Any) -> Record:
        """The next record, as a worker takes it."""
        deadline = time.monotonic() + 30
        found: list[Record] = []
        while not found:
            assert time.monotonic() < deadline
            found = log.poll(1, 0.1)
        return found[0]

    def test_a_partition_that_comes_back_is_gained_anew(self) -> None:
        first = self.worker(instance="a")
        self.wait(lambda: len(first.assigned()) == 4, first)
        assert len(first.gained()) == 4
        second = self.worker(instance="b")
        self.wait(lambda: second.poll(1, 0.0) == [] and len(second.assigned()) == 2, first)
        went = second.assigned()
        assert first.gained() == frozenset()
        second.close()
        self.wait(lambda: len(first.assigned()) == 4, first)
        assert first.gained() == went
        first.close()

    def test_a_beginning_that_was_lost_is_a_loud_error(self) -> None:
        self.write([out("group", n) for n in range(5)])
        self.cut(("group", 0), 3)
        self.is_out_of_range(self.reactor())

    @staticmethod
    def is_out_of_range(log: Any) -> None:
        """Reading on is an error that says what was lost, and what is needed."""

        def read_on() -> None:
            for _ in range(100):
                assert log.poll(10, 0.1) == [], "what is left must not be taken for all there was"

        with pytest.raises(LogError, match="out of range"):
            read_on()
        log.close()

    def test_a_worker_does_not_pass_over_what_was_lost_behind_its_committed_offset(self) -> None:
        self.write([out(WORKER_TOPIC, n) for n in range(5)])
        first = self.worker(instance="a")
        first.commit([], {record.place: record.offset + 1 for record in self.read(first, 5)[:2]}, nothing)
        first.close()
        self.cut((WORKER_TOPIC, 0), 2)  # what was done may go
        second = self.worker(instance="b")
        assert [r.value for r in self.read(second, 3)] == [b"v2", b"v3", b"v4"]
        second.close()
        self.cut((WORKER_TOPIC, 0), 4)
        self.is_out_of_range(self.worker(instance="c"))

    def test_a_worker_that_never_committed_does_not_pass_over_a_lost_beginning(self) -> None:
        self.write([out(WORKER_TOPIC, n) for n in range(5)])
        self.cut((WORKER_TOPIC, 0), 3)
        self.is_out_of_range(self.worker())
