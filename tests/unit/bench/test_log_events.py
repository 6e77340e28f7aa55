"""What bench/log.py and bench/peers.py move are events of their campaign, each with a place of its own."""

from bat_events.codec import Codec
from bat_events.deciders.premises import impossible
from bench.log_parts.events import PARTITIONS, encode, events
from tests.support.samples import as_record


def test_records_decode_to_the_events_and_are_possible() -> None:
    made, codec = events(70), Codec()
    facts = [codec.decode(as_record(out)) for out in encode(made)]
    assert [fact.event for fact in facts] == made
    assert {impossible(fact) for fact in facts} == {None}
    assert len({fact.id for fact in facts}) == 70
    assert {(fact.topic, fact.partition) for fact in facts} == {(t, p) for t in ("rollout", "reward") for p in range(4)}
    assert all(PARTITIONS[fact.topic] == 4 for fact in facts)
