"""The optional check of meaning: off by default; on, nothing is cleared without sketches, and near meaning is rejected."""

import json
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from fake_runtime import FakeLogContext

from bat_events.benchmark.body import state_body
from bat_events.benchmark.interface import Task, TaskKey
from bat_events.consumers.fingerprinter import Fingerprinter
from bat_events.consumers.leakage_gate import LeakageGate
from bat_events.consumers.meanings import MeaningScanner, meanings_from_log, published
from bat_events.domain.leakage.meaning import BITS, Meanings, nearest, pieces, sketch
from bat_events.domain.vocabulary import Focus, Outcome, Split, Track
from bat_events.embedding.endpoint import Endpoint
from bat_events.embedding.interface import EmbeddingFailed, embedder
from bat_events.errors import ConfigurationError
from bat_events.events.bank import LeakageVerdict, StateSynthesized
from bat_events.events.plan import EvaluationPlan
from bat_events.service.runtime import Retryable
from bat_events.settings import EmbeddingSettings
from tests.support.campaigns import CAMPAIGN, PLAN, started, told
from tests.support.samples import fact as fact_of

KEY = b"0123456789abcdef0123456789abcdef"
HELD = "The missing slice lies between slice forty and slice forty two of the head scan."
OTHER = "Of the cranial series the absent image sits between image forty and image forty two."
SHARED = "Write the mask of every case to the outputs folder as an array of bytes."
SAME = {"missing": "absent", "slice": "image", "lies": "sits", "head": "cranial", "scan": "series"}


class Synonyms:
    """A stand-in for a model: words that mean the same are one direction."""

    name = "synonyms"

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([self._vector(text) for text in texts], dtype=np.float64)

    @staticmethod
    def _vector(text: str) -> np.ndarray:
        said = {SAME.get(word.strip("."), word.strip(".")) for word in text.lower().split()}
        return np.sum([_direction(word) for word in sorted(said)], axis=0)


@cache
def _direction(word: str) -> np.ndarray:
    return np.random.default_rng(list(word.encode())).normal(size=64)


def known(similar: float = 0.8) -> Meanings:
    event = published(Synonyms(), [HELD, SHARED], [SHARED], KEY, similar)
    found = meanings_from_log([fact_of(event, campaign="c")], "c", KEY, Synonyms())
    assert found is not None
    return found


def test_the_share_of_equal_signs_estimates_the_cosine() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(40, 384)), rng.normal(size=(40, 384))
    mixed = 0.8 * a + 0.6 * b
    cosine = (a * mixed).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(mixed, axis=1)
    told_ = [nearest(sketch(mixed[n : n + 1], KEY), sketch(a[n : n + 1], KEY))[0] for n in range(40)]
    assert np.abs(np.array(told_) - cosine).max() < 0.1
    assert np.abs(nearest(sketch(a, KEY), sketch(a, KEY[::-1]))).max() < 0.2  # another key: no relation
    assert sketch(a, KEY).shape == (40, BITS // 8)


def test_a_paraphrase_is_found_and_shared_text_is_held_out_from_nobody() -> None:
    scanner = MeaningScanner(Synonyms(), known())
    found = scanner.check({"prompt": f"Practise this now, one case at a time, please.\n{OTHER}"})
    assert not found.passed
    assert found.evidence[0].startswith("sentence 1 of the document is near held-out text (")
    assert "cranial" not in found.evidence[0]
    assert scanner.check({"prompt": SHARED}).passed
    assert scanner.check({"prompt": "Short."}).evidence == ("no sentence of 8 words",)


def test_what_crosses_is_sealed_and_of_fixed_length() -> None:
    event = published(Synonyms(), [HELD, SHARED], [SHARED], KEY, 0.8)
    assert event.sketch_count == 1
    assert {len(block) for block in event.sketches} == {64}
    open_bits = sketch(Synonyms().embed([HELD]), KEY).tobytes().hex()
    assert open_bits[:32] not in "".join(event.sketches)


def test_numbers_make_no_other_piece_and_long_text_is_cut() -> None:
    assert (
        len(
            pieces(
                [
                    "Segment the 4 lesions of case 17 in the image now.",
                    "Segment the 5 lesions of case 18 in the image now.",
                ]
            )
        )
        == 1
    )
    assert [len(piece.split()) for piece in pieces([" ".join(["word"] * 250)])] == [120, 10]  # equal pieces count once


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"model": "0" * 64}, "another model"),
        ({"rule_version": 9}, "another rule"),
        ({"sketch_count": 0}, "do not open"),
    ],
)
def test_sketches_that_would_find_nothing_are_refused(fields: dict[str, object], says: str) -> None:
    event = published(Synonyms(), [HELD], [], KEY, 0.8).model_copy(update=fields)
    with pytest.raises(ConfigurationError, match=says):
        meanings_from_log([fact_of(event, campaign="c")], "c", KEY, Synonyms())


class Server(ThreadingHTTPServer):
    """A tiny OpenAI-compatible endpoint."""

    broken = False


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v1/embeddings"
        assert self.headers["Authorization"] == "Bearer secret"
        texts = asked["input"]
        data = [
            {"object": "embedding", "index": n, "embedding": list(v)} for n, v in enumerate(Synonyms().embed(texts))
        ]
        assert isinstance(self.server, Server)
        body = {
            "object": "list",
            "model": asked["model"],
            "data": data[::-1],
            "usage": {"prompt_tokens": 0, "total_tokens": 0},
        }
        reply = json.dumps(body).encode()
        self.send_response(400 if self.server.broken else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), _Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def test_an_endpoint_gives_vectors_in_the_order_of_the_texts_or_says_that_it_failed(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("secret\n")
    url = f"http://127.0.0.1:{server.server_port}/v1"
    made = embedder(EmbeddingSettings(model="synonyms", endpoint=url, api_key_file=tmp_path / "key"))
    assert isinstance(made, Endpoint)
    texts = [f"text number {n} of many" for n in range(70)]
    assert np.allclose(made.embed(texts), Synonyms().embed(texts))
    server.broken = True
    with pytest.raises(EmbeddingFailed, match="the embedding endpoint failed"):
        made.embed(texts)


def test_a_model_that_is_not_there_is_named_and_none_means_off(tmp_path: Path) -> None:
    assert embedder(EmbeddingSettings()) is None
    with pytest.raises(ConfigurationError, match=r"embedding\.model"):
        embedder(EmbeddingSettings(model=str(tmp_path)))
    with pytest.raises(ConfigurationError, match=r"embedding\.model is not"):
        embedder(EmbeddingSettings(endpoint="http://127.0.0.1:9/v1"))


def test_with_the_check_on_the_gate_waits_for_sketches_and_its_verdict_has_one_check_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = PLAN.model_copy(update={"evaluation": EvaluationPlan(repeats=2)})
    begun = started(small)
    context = FakeLogContext.on(tmp_path, begun)
    for module in ("fingerprinter", "leakage_gate"):
        monkeypatch.setattr(f"bat_events.consumers.{module}.embedder", lambda _: Synonyms())
    key = TaskKey(track=Track.SEGMENTATION, focus=Focus.S3, outcome=Outcome.SUCCESS, seed=1, split=Split.PRACTICE)
    held = Task(key=key, system="s", prompt=HELD, inputs={}, files={}, max_turns=1)
    monkeypatch.setattr("bat_events.consumers.fingerprinter.heldout_tasks", lambda *_: [held])
    monkeypatch.setattr("bat_events.consumers.fingerprinter.shared_texts", lambda *_: ([SHARED], 1))
    drafts = Fingerprinter(context).handle(begun)
    kinds = [type(draft.event).__name__ for draft in drafts]
    assert kinds == [
        "HeldoutMeaningsPublished",
        "SharedTextDeclared",
        "HeldoutNgramsPublished",
        "HeldoutFingerprintsPublished",
    ]
    context.facts += [fact_of(draft.event, campaign=CAMPAIGN) for draft in drafts[1:]]
    task = Task(key=key, system="s", prompt=OTHER, inputs={}, files={}, max_turns=1)
    state = told(StateSynthesized, body=context.store.put_json(state_body(task, benchmark="mini", version=1)))
    context.stop.set()
    with pytest.raises(Retryable, match="sketches of held-out meaning"):
        LeakageGate(context).handle(state)
    context.facts.append(fact_of(drafts[0].event, campaign=CAMPAIGN))
    (draft,) = LeakageGate(context).handle(state)
    assert isinstance(draft.event, LeakageVerdict)
    assert [(check.name, check.passed) for check in draft.event.checks][-1] == ("meaning", False)
    assert not draft.event.cleared
