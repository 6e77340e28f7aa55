"""The doctor: each lack is found by trying, and comes with the line that mends it."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bat_events.cli import doctor
from bat_events.cli.doctor import Check, checks, render
from bat_events.cli.doctor_isolation import bubblewrap_lack, container_engine, image_lack

NAMES = {
    "python",
    "java",
    "maven",
    "kafka",
    "user namespaces",
    "bubblewrap",
    "cgroup memory",
    "container engine",
    "torch",
    "gpu",
    "disk",
    "memory",
}


def named(found: list[Check], name: str) -> Check:
    return next(check for check in found if check.name == name)


def program(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_every_lack_comes_with_its_remedy(tmp_path: Path) -> None:
    bare = checks(tmp_path, {"PATH": "", "XDG_CACHE_HOME": str(tmp_path)})

    assert {check.name for check in bare} - {"sandbox image"} == NAMES  # asked about only where an engine answers
    assert [check.name for check in bare if not check.ok and not check.remedy] == []
    assert [check.name for check in bare if check.ok and check.remedy] == []
    for name, word in (("java", "jre"), ("maven", "maven"), ("bubblewrap", "bubblewrap"), ("kafka", "make setup")):
        lack = named(bare, name)
        assert (lack.ok, lack.required) == (False, True)
        assert word in lack.remedy


def test_looking_leaves_no_trace(tmp_path: Path) -> None:
    checks(tmp_path / "home", dict(os.environ))
    assert not (tmp_path / "home").exists()


def test_maven_is_not_required_where_the_jars_are_in_place(tmp_path: Path) -> None:
    (tmp_path / "kafka_2.13-4.2.2.jar").touch()
    maven = named(checks(tmp_path, {"PATH": "", "BAT_KAFKA_JARS": str(tmp_path)}), "maven")
    assert (maven.ok, maven.required) == (False, False)


def test_named_cluster_is_asked_and_java_is_not_required_then(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        found = checks(tmp_path, {"PATH": "", "BAT_KAFKA_BOOTSTRAP": address})

    kafka = named(found, "kafka")
    assert not kafka.ok
    assert address in kafka.detail
    assert "BAT_KAFKA_BOOTSTRAP" in kafka.remedy
    assert not named(found, "java").required


@pytest.mark.parametrize(
    ("seen", "lack"),
    [
        ("echo 2; echo 2; echo read-only", "the host's network"),
        ("echo 1; echo 4711; echo read-only", "the host's processes"),
        ("echo 1; echo 2; echo writable", "a writable system"),
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions"),
    ],
)
def test_bubblewrap_that_does_not_isolate_is_a_lack(tmp_path: Path, seen: str, lack: str) -> None:
    program(tmp_path / "bwrap", seen)
    assert lack in (bubblewrap_lack({"PATH": str(tmp_path)}) or "")


def test_bubblewrap_that_runs_everything_bare_is_a_lack(tmp_path: Path) -> None:
    program(tmp_path / "bwrap", 'while [ "$1" != /bin/sh ]; do shift; done; exec "$@"')
    assert "a writable system" in (bubblewrap_lack({"PATH": str(tmp_path)}) or "")


@contextmanager
def engine(path: Path, answer: bytes) -> Iterator[str]:
    """A socket that answers one request."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"unix://{path}"
        thread.join(5)


def test_container_engine_is_one_that_answers(tmp_path: Path) -> None:
    with engine(tmp_path / "good", b'HTTP/1.0 200 OK\r\n\r\n{"Version": "20.10.24"}') as address:
        assert container_engine({"DOCKER_HOST": address}) == (f"20.10.24 at {address}", None)
    with engine(tmp_path / "bad", b"HTTP/1.0 500 Oops\r\n\r\n") as address:
        assert "500 Oops" in (container_engine({"DOCKER_HOST": address})[1] or "")
    with engine(tmp_path / "mute", b"") as address:
        assert address in (container_engine({"DOCKER_HOST": address})[1] or "")
    assert container_engine({"DOCKER_HOST": f"unix://{tmp_path}/none"})[1]


def test_an_engine_without_the_sandbox_image_is_a_lack(tmp_path: Path) -> None:
    with engine(tmp_path / "has", b'HTTP/1.0 200 OK\r\n\r\n{"Id": "sha256:1"}') as address:
        assert image_lack(address, "bat-events-sandbox") is None
    with engine(tmp_path / "lacks", b"HTTP/1.0 404 Not Found\r\n\r\n{}") as address:
        assert "no image bat-events-sandbox" in (image_lack(address, "bat-events-sandbox") or "")


def test_little_memory_and_little_disk_are_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MINIMUM_DISK_BYTES", 1 << 62)
    monkeypatch.setattr(doctor, "MINIMUM_MEMORY_BYTES", 1 << 62)
    found = checks(tmp_path, {"PATH": ""})
    assert not named(found, "disk").ok
    assert not named(found, "memory").ok


def test_table_tells_missing_from_merely_absent() -> None:
    table = render(
        [
            Check(name="python", ok=True, required=True, detail="3.11.7"),
            Check(name="java", ok=False, required=True, detail="none", remedy="apt-get install java"),
            Check(name="gpu", ok=False, required=False, detail="none", remedy="nothing to do"),
        ]
    )
    assert [line.split() for line in table.splitlines()] == [
        ["ok", "python", "3.11.7"],
        ["MISSING", "java", "none"],
        ["->", "apt-get", "install", "java"],
        ["absent", "gpu", "none"],
        ["->", "nothing", "to", "do"],
    ]
