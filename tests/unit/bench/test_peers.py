"""bench/peers: who loses, repeats or misreads an event is found; rates and ratios are what they say."""

import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[3] / "bench"


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The modules as the script imports them: bench/ is not a package of its own there."""
    monkeypatch.syspath_prepend(str(BENCH))
    before = set(sys.modules)
    import peers_parts.contestants
    import peers_parts.driving
    import peers_parts.measuring
    import peers_parts.results
    import peers_parts.scene

    yield peers_parts
    for name in set(sys.modules) - before:
        if name == "log" or name.startswith(("log.", "peers_parts")):
            del sys.modules[name]


def passed(parts: Any, rows: Any, wanted: int) -> dict[str, Any]:
    """What a driver reports that decoded these rows."""
    meter = parts.driving.Meter(wanted)
    for topic, _, value, headers in rows:
        body = parts.scene.decoded(topic, value)
        meter.take(body["step"], body["index"], len(headers))
    return {"events": meter.events, "check": meter.check, "headers": meter.headers, "settings": ""}


def test_what_was_lost_repeated_or_misread_fails_the_run(parts: Any) -> None:
    rows = parts.scene.Corpus.make(40).mixed
    check, failed = parts.measuring.Bench._check, parts.measuring.Failed
    assert check("consume", None, rows, passed(parts, rows, 40)) == ""
    with pytest.raises(failed, match="39 of 40"):
        check("consume", None, rows, passed(parts, rows[:-1], 40))
    with pytest.raises(failed, match="41 of 40"):
        check("consume", None, rows, passed(parts, [*rows, rows[0]], 40))
    with pytest.raises(failed, match="sum"):  # as many, and one of them twice in another's place
        check("consume", None, rows, passed(parts, [*rows[:-1], rows[0]], 40))


def test_dropped_headers_are_said(parts: Any) -> None:
    rows = parts.scene.Corpus.make(8).mixed
    without = [(topic, key, value, headers[1:]) for topic, key, value, headers in rows]
    said = parts.measuring.Bench._check("consume", None, rows, passed(parts, without, 8))
    assert said == f"{8 * len(rows[0][3]) - 8} of {8 * len(rows[0][3])} headers"


def test_every_event_is_about_another_rollout_with_the_ids_of_its_campaign(parts: Any) -> None:
    from bat_events.codec import Codec
    from bat_events.deciders.premises import impossible
    from bat_events.log.interface import Record

    corpus = parts.scene.Corpus.make(40)
    for rows in (corpus.mixed, corpus.rollouts):
        bodies = [parts.scene.decoded(topic, value) for topic, _, value, _ in rows]
        assert len({body["rollout"] for body in bodies}) == 40
    topic, key, value, headers = corpus.rollouts[7]
    record = Record(topic=topic, partition=0, offset=0, key=key, value=value, headers=headers, timestamp_ms=0)
    assert impossible(Codec().decode(record)) is None


def test_a_path_is_one_task_after_the_other_and_the_best_peer_is_no_contestant_of_ours(parts: Any) -> None:
    results = parts.results.Results()
    by_name = {(c.name, c.guarantee): c for c in parts.contestants.CONTESTANTS}

    def add(name: str, guarantee: str, task: str, rate: float) -> None:
        report = parts.measuring.Report(events=1000, wall_s=1000 / rate, cpu_s=500 / rate, versions={}, settings="")
        results.add(by_name[name, guarantee], task, report)

    for rates in ((100.0, 50.0), (300.0, 150.0), (200.0, 100.0)):
        add("bat-events", "exactly-once", "produce", rates[0])
        add("bat-events", "exactly-once", "consume", rates[1])
    add("Quix Streams", "at-least-once", "produce", 60.0)
    add("FastStream", "at-least-once", "produce", 90.0)
    ours = results.ours()
    assert results.rate(ours, "produce") == pytest.approx(200.0)  # the median
    assert results.rate(ours, "path") == pytest.approx(1 / (1 / 200 + 1 / 100))
    assert results.rate(ours, "path", cpu=True) == pytest.approx(2 / (1 / 200 + 1 / 100))
    name, rate = results.best_peer("produce")
    assert (name, rate) == ("FastStream, at-least-once", pytest.approx(90.0))
    assert results.rate(by_name["Quix Streams", "at-least-once"], "path") is None


def test_the_clock_starts_after_the_warm_up(parts: Any) -> None:
    meter = parts.driving.Meter(8)
    assert meter.warm_up == 2
    batches = list(parts.driving.batches(list(range(8)), meter))
    assert [list(batch) for batch in batches] == [[0, 1], [2, 3, 4, 5, 6, 7]]
    assert meter.events == 8
