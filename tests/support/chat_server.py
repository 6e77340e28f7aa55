"""A local HTTP server that speaks the chat completions API, and misbehaves as it is told."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Say = Callable[[list[str]], list[str]]
Behaviour = Callable[["Call"], None]
"""Answers one call, or does not."""


class Call:
    """One request: the sentences it asks about, and ways to answer it."""

    def __init__(self, handler: BaseHTTPRequestHandler, body: dict[str, Any], stop: threading.Event) -> None:
        self._handler, self.body, self.stop = handler, body, stop

    @property
    def lines(self) -> list[str]:
        asked = json.loads(self.body["messages"][-1]["content"])
        return [line["text"] for line in asked["lines"]]

    @property
    def question(self) -> dict[str, Any]:
        """What a judge is asked: the benchmark's part."""
        asked: dict[str, Any] = json.loads(self.body["messages"][-1]["content"].split("\n")[0])
        return asked

    @property
    def left(self) -> dict[str, str]:
        """What a judge is asked about: the policy's part."""
        found: dict[str, str] = json.loads(self.body["messages"][-1]["content"].split("\n")[-2])
        return found

    def send(
        self,
        status: int,
        content: bytes,
        kind: str = "application/json",
        *,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._handler.send_response(status)
        for name, value in headers:
            self._handler.send_header(name, value)
        self._handler.send_header("Content-Type", kind)
        self._handler.send_header("Content-Length", str(len(content)))
        self._handler.end_headers()
        self._handler.wfile.write(content)

    def complete(self, text: str | None, *, finish: str = "stop", refusal: str | None = None) -> None:
        message = {"role": "assistant", "content": text, "refusal": refusal}
        choice = {"index": 0, "finish_reason": finish, "message": message}
        usage = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
        reply = {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
        self.send(200, json.dumps(reply).encode())

    def cut_off(self, status: int = 200) -> None:
        """Begin an answer and close the connection in the middle of it."""
        self._handler.send_response(status)
        self._handler.send_header("Content-Type", "application/json")
        self._handler.send_header("Content-Length", "1000")
        self._handler.end_headers()
        self._handler.wfile.write(b'{"id": "1", "choi')
        self._handler.close_connection = True

    def drip(self) -> None:
        """Begin an answer and send a byte of it now and then, without end."""
        self._handler.send_response(200)
        self._handler.send_header("Content-Type", "application/json")
        self._handler.send_header("Content-Length", "1000000")
        self._handler.end_headers()
        while not self.stop.wait(0.02):
            self._handler.wfile.write(b" ")
            self._handler.wfile.flush()


class ChatServer:
    """The calls that came, and how the next ones are answered; the last behaviour repeats."""

    def __init__(self, behaviours: Sequence[Behaviour]) -> None:
        self.behaviours = list(behaviours)
        self.raw: list[bytes] = []
        self.keys: list[str | None] = []
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                behaviour = server._begin(content, self.headers["Authorization"])
                try:
                    behaviour(Call(self, json.loads(content), server._stop))
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True
                finally:
                    server._end()

            def log_message(self, *_: object) -> None:
                return None

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def close(self) -> None:
        self._stop.set()
        self._http.shutdown()
        self._http.server_close()

    def _begin(self, content: bytes, key: str | None) -> Behaviour:
        with self._lock:
            self.raw.append(content)
            self.keys.append(key)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            return self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0]

    def _end(self) -> None:
        with self._lock:
            self._now -= 1


@contextmanager
def chat_server(*behaviours: Behaviour) -> Iterator[ChatServer]:
    """A server for as long as this lasts."""
    server = ChatServer(behaviours)
    try:
        yield server
    finally:
        server.close()


def says(say: Say) -> Behaviour:
    """Answers with these wordings."""
    return lambda call: call.complete(json.dumps({"lines": say(call.lines)}))


def politely(lines: list[str]) -> list[str]:
    """A wording that keeps every fact."""
    return [f"{line}, if you please" for line in lines]


def fails(status: int, **headers: str) -> Behaviour:
    """Answers with a status and no completion."""
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return lambda call: call.send(status, b'{"error": {"message": "no"}}', headers=named)


def hangs(call: Call) -> None:
    """Never answers."""
    call.stop.wait()


def slowly(behaviour: Behaviour, seconds: float) -> Behaviour:
    """Behaves so after a while."""

    def later(call: Call) -> None:
        time.sleep(seconds)
        behaviour(call)

    return later


def talks(text: str) -> Behaviour:
    """Completes with a text of its own."""
    return lambda call: call.complete(text)


def cut_short(call: Call) -> None:
    """A right answer that met the limit of tokens."""
    call.complete(json.dumps({"lines": politely(call.lines)}), finish="length")


def html(call: Call) -> None:
    """What a proxy says."""
    call.send(200, b"<html>busy</html>", "text/html")


def other_json(call: Call) -> None:
    """JSON that is no completion."""
    call.send(200, b'{"choices": "none"}')


def drips(call: Call) -> None:
    """See Call.drip."""
    call.drip()


def scores(give: Callable[[Call], float], *, item: str | None = None, times: int = 1) -> Behaviour:
    """Judges: the score that `give` says, for the item asked about or another one, so many times."""

    def answer(call: Call) -> None:
        one = {"item": item or call.question["item"], "score": give(call), "rationale": "read"}
        call.complete(json.dumps({"scores": [one] * times}))

    return answer


def gives(score: float) -> Behaviour:
    """Judges: always this score, which may be no score at all."""
    return scores(lambda _: score)


def refuses(call: Call) -> None:
    """Declines to judge."""
    call.complete(None, refusal="I would rather not.")


def cut_off(call: Call) -> None:
    """See Call.cut_off."""
    call.cut_off()
