"""The artefact store: what a digest names is what comes back, or an error says that it is not."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bat_events.artifacts import ArtifactError, ArtifactStore


def opened(root: Path, cache: str = "cache") -> ArtifactStore:
    return ArtifactStore(str(root / "artifacts"), cache=root / cache)


def stored_files(root: Path) -> list[Path]:
    return sorted(path for path in (root / "artifacts").rglob("*") if path.is_file())


def folder_of(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = root / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (root / "folder").mkdir(exist_ok=True)
    return root / "folder"


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


FILES = {"config.json": b"{}", "deep/er/weights.bin": bytes(range(256)), "empty": b""}


def test_bytes_come_back_under_their_sha256(tmp_path: Path) -> None:
    store = opened(tmp_path)
    digest = store.put(b"content")
    assert digest == hashlib.sha256(b"content").hexdigest()
    assert store.get(digest) == b"content"
    assert store.has(digest)


def test_storing_twice_stores_once_and_leaves_no_other_file(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.put(b"content")
    (path,) = stored_files(tmp_path)
    before = path.stat()
    store.put(b"content")
    assert stored_files(tmp_path) == [path]
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_equal_json_has_one_digest_whatever_the_order_of_its_fields(tmp_path: Path) -> None:
    store = opened(tmp_path)
    digest = store.put_json({"b": [1, 2], "a": "ä"})
    assert store.put_json({"a": "ä", "b": [1, 2]}) == digest
    assert store.get_json(digest) == {"a": "ä", "b": [1, 2]}


def test_a_write_that_dies_leaves_nothing_under_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(tmp_path)
    digest = hashlib.sha256(b"content").hexdigest()

    def dies(*_: object, **__: object) -> None:
        raise OSError("the process dies before the rename")

    with monkeypatch.context() as patched:
        patched.setattr(store._fs, "mv", dies)
        with pytest.raises(OSError, match="dies"):
            store.put(b"content")
    assert not store.has(digest)
    with pytest.raises(ArtifactError):
        store.get(digest)
    assert store.put(b"content") == digest
    assert store.get(digest) == b"content"


def test_bytes_that_were_changed_are_found_at_reading(tmp_path: Path) -> None:
    store = opened(tmp_path)
    digest = store.put(b"content")
    (path,) = stored_files(tmp_path)
    path.write_bytes(b"c0ntent")
    with pytest.raises(ArtifactError, match=f"{digest}.*changed"):
        store.get(digest)


def test_what_was_never_stored_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=f"{'0' * 64}.*BAT_HOME"):
        opened(tmp_path).get("0" * 64)


def test_a_folder_comes_back_whole_in_another_process_home(tmp_path: Path) -> None:
    digest = opened(tmp_path).put_folder(folder_of(tmp_path, FILES))
    target = opened(tmp_path, cache="another").get_folder(digest)
    assert files_of(target) == FILES
    assert opened(tmp_path, cache="another").get_folder(digest) == target


def test_a_folders_digest_follows_from_names_and_bytes_only(tmp_path: Path) -> None:
    digest = opened(tmp_path).put_folder(folder_of(tmp_path / "a", FILES))
    again = folder_of(tmp_path / "b", dict(reversed(FILES.items())))
    os.utime(again / "empty", (1, 1))
    assert opened(tmp_path).put_folder(again) == digest
    (again / "empty").rename(again / "void")
    assert opened(tmp_path).put_folder(again) != digest


def test_an_empty_folder_comes_back_empty(tmp_path: Path) -> None:
    store = opened(tmp_path)
    target = store.get_folder(store.put_folder(folder_of(tmp_path, {})))
    assert target.is_dir()
    assert files_of(target) == {}


def test_a_folder_with_a_changed_file_is_not_materialised(tmp_path: Path) -> None:
    store = opened(tmp_path)
    digest = store.put_folder(folder_of(tmp_path, {"one": b"1", "two": b"2"}))
    (tmp_path / "artifacts" / hashlib.sha256(b"2").hexdigest()[:2] / hashlib.sha256(b"2").hexdigest()).write_bytes(b"3")
    with pytest.raises(ArtifactError, match="changed"):
        store.get_folder(digest)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("kind", ["file link", "folder link", "dangling link", "pipe"])
def test_a_folder_with_anything_but_plain_files_is_refused(tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    folder = folder_of(tmp_path, {"weights": b"w"})
    odd = folder / "odd"
    if kind == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to({"file link": secret / "key", "folder link": secret, "dangling link": tmp_path / "none"}[kind])
    with pytest.raises(ArtifactError, match="odd is no regular file"):
        opened(tmp_path).put_folder(folder)


@pytest.mark.parametrize("value", [{"kind": "state"}, [1], "folder"])
def test_another_artefact_is_no_folder(tmp_path: Path, value: object) -> None:
    store = opened(tmp_path)
    with pytest.raises(ArtifactError, match="is no folder"):
        store.get_folder(store.put_json(value))


def test_a_dropped_folder_is_made_again(tmp_path: Path) -> None:
    store = opened(tmp_path)
    digest = store.put_folder(folder_of(tmp_path, FILES))
    store.drop_cached(digest)
    target = store.get_folder(digest)
    store.drop_cached(digest)
    assert not target.exists()
    assert files_of(store.get_folder(digest)) == FILES


def test_whoever_is_second_takes_the_folder_that_the_first_made(tmp_path: Path) -> None:
    class Overtaken(ArtifactStore):
        """Another store materialises the folder while this one is at it."""

        def get(self, digest: str) -> bytes:
            if digest == hashlib.sha256(b"").hexdigest():
                opened(tmp_path).get_folder(folder)
            return super().get(digest)

    folder = opened(tmp_path).put_folder(folder_of(tmp_path, FILES))
    target = Overtaken(str(tmp_path / "artifacts"), cache=tmp_path / "cache").get_folder(folder)
    assert files_of(target) == FILES
    assert list((tmp_path / "cache").iterdir()) == [target]


_MATERIALISE = """
import json, sys, time
from pathlib import Path
from bat_events.artifacts import ArtifactStore
root, digest = Path(sys.argv[1]), sys.argv[2]
store = ArtifactStore(str(root / "artifacts"), cache=root / "cache")
print("ready", flush=True)
sys.stdin.readline()
target = store.get_folder(digest)
print(json.dumps(sorted(path.name for path in target.iterdir())), flush=True)
"""


def test_two_processes_that_materialise_one_folder_both_get_all_of_it(tmp_path: Path) -> None:
    files = {f"part-{number:03d}": bytes([number]) * 100 for number in range(150)}
    digest = opened(tmp_path).put_folder(folder_of(tmp_path, files))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _MATERIALISE, str(tmp_path), digest],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    seen = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert [json.loads(line) for line in seen] == [sorted(files)] * 2
    assert files_of(tmp_path / "cache" / digest) == files
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [digest]


def test_a_note_says_which_artefact_answers_a_key_and_the_first_one_stays(tmp_path: Path) -> None:
    store = ArtifactStore(str(tmp_path / "root"), cache=tmp_path / "cache")
    key, first, second = (hashlib.sha256(word).hexdigest() for word in (b"key", b"1", b"2"))
    assert store.recall(key) is None
    store.remember(key, first)
    store.remember(key, second)
    assert store.recall(key) == first
    (note,) = (tmp_path / "root" / "notes").rglob(key)
    note.write_text("no digest")
    assert store.recall(key) is None
