"""A base image of this machine's own files, for where no registry can be reached: Debian's usual commands, this Python, packages.

What goes in: the files of a few essential Debian packages (commands, not documentation), this Python with its standard library,
the named distributions of this environment, and every shared library that these need. It takes seconds and some 200 MB.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import BinaryIO

from bat_events.sandbox.image import PACKAGES, PYTHON
from bat_events.sandbox.interface import SandboxUnavailable

_DEBIAN = (
    *("bash", "coreutils", "dash", "diffutils", "findutils", "grep", "gzip", "hostname", "libc-bin", "mawk", "mount"),
    *("sed", "tar", "util-linux"),
)
_LEFT_OUT = ("/usr/share/", "/etc/", "/var/", "/usr/lib/udev", "/lib/systemd", "/usr/lib/systemd")
_UNUSED = {
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
}
_EXTRA = ("/usr/lib/locale/C.utf8", "/etc/alternatives/awk")
# Loaded by name while running, so no file says that it needs them.
_BY_NAME = ("libgcc_s.so.1",)


def write_base(target: BinaryIO, packages: Sequence[str], extra: Mapping[str, Path] | None = None) -> None:
    """Write the root file system as a tar. Raises SandboxUnavailable where this machine is not Debian.

    extra: further folders, path inside -> folder of this machine; links in them are followed.
    """
    files = dict(_all_files(packages))
    for inside, folder in (extra or {}).items():
        files |= {name: path.resolve() for name, path in _tree(folder, inside.lstrip("/")) if path.exists()}
    for library in _libraries(files):
        files.setdefault(_inside(library), library)
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name in ("bin", "sbin", "lib", "lib64"):
            _add_link(archive, name, f"usr/{name}")
        for name, mode in (("tmp", 0o1777), ("proc", 0o755), ("sys", 0o755), ("dev", 0o755), ("usr/lib64", 0o755)):
            _add_folder(archive, name, mode)
        for name, source in sorted(files.items()):
            archive.add(source, name, recursive=False, filter=_as_root)
        _add_text(archive, "etc/ld.so.conf", f"{PYTHON}/lib\n/usr/lib/{_multiarch()}\n/usr/lib\n")
        _add_text(archive, "etc/passwd", "root:x:0:0::/:/bin/false\n")
        _add_text(archive, "etc/group", "root:x:0:\n")


def _all_files(packages: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """(path inside without leading slash, file or link of this machine)."""
    if shutil.which("dpkg-query") is None:
        raise SandboxUnavailable(
            "a local base is made of Debian's files, and this is no Debian: name a base image that the engine can get"
        )
    for name in _DEBIAN:
        for path in _lines(["dpkg-query", "-L", name]):
            if path.startswith(_LEFT_OUT):
                continue
            source = Path(path)
            if source.is_file() or (source.is_symlink() and not source.is_dir()):
                yield _inside(source), source
    for extra in _EXTRA:
        yield from _tree(Path(extra), extra.lstrip("/"))
    for awk in ("/usr/bin/awk", "/usr/bin/mawk"):
        yield awk.lstrip("/"), Path(awk)
    yield from _python()
    for name in packages:
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError as error:
            raise SandboxUnavailable(f"the sandbox's package {name} is not installed: pip install {name}") from error
        for file in distribution.files or ():
            if file.parts[0] not in ("..", "__pycache__") and "tests" not in file.parts:
                yield f"{PACKAGES.lstrip('/')}/{file}", Path(str(distribution.locate_file(file)))


def _python() -> Iterator[tuple[str, Path]]:
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(sys.base_prefix).resolve()
    inside = "usr" if base == Path("/usr") else PYTHON.lstrip("/")
    yield f"{inside}/bin/{name}", (base / "bin" / name).resolve()
    yield from _tree(base / "lib" / name, f"{inside}/lib/{name}")
    for library in (base / "lib").glob("libpython*.so*"):
        yield f"{inside}/lib/{library.name}", library


def _tree(top: Path, inside: str) -> Iterator[tuple[str, Path]]:
    if not top.is_dir() or top.is_symlink():
        yield inside, top
        return
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name not in _UNUSED and not name.startswith("config-")]
        for name in names:
            if not name.endswith((".a", ".opt-1.pyc", ".opt-2.pyc")):
                source = Path(folder, name)
                yield f"{inside}/{source.relative_to(top)}", source


def _libraries(files: dict[str, Path]) -> set[Path]:
    """Every shared library of this machine that one of these files needs, with the loader."""
    programs = sorted({str(path) for path in files.values() if path.is_file() and _is_program(path)})
    found: set[Path] = set()
    for start in range(0, len(programs), 200):
        done = subprocess.run(["ldd", *programs[start : start + 200]], capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            words = line.split()
            path = words[2] if len(words) > 2 and words[1] == "=>" else words[0] if words else ""
            if path.startswith(("/lib", "/usr/lib")) and not path.endswith(":"):
                found.add(Path(path))
    for name in _BY_NAME:
        found |= {path for path in (Path("/usr/lib", _multiarch(), name),) if path.exists()}
    # A library is found by its short name, which is a link to the file.
    return found | {path.resolve() for path in found}


def _is_program(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _inside(path: Path) -> str:
    """Where a file of this machine lies inside: /bin and /lib are links to /usr there, as on every Debian."""
    text = os.path.normpath(path)
    for top in ("/bin/", "/sbin/", "/lib/", "/lib64/"):
        if text.startswith(top):
            text = f"/usr{text}"
    return text.lstrip("/")


def _lines(command: Iterable[str]) -> list[str]:
    done = subprocess.run([*command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SandboxUnavailable(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def _multiarch() -> str:
    return f"{os.uname().machine}-linux-gnu"


def _as_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode = (info.mode & 0o755) | 0o444  # no set-user bits, readable by the call's user
    return info


def _add_link(archive: tarfile.TarFile, name: str, target: str) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    archive.addfile(info)


def _add_folder(archive: tarfile.TarFile, name: str, mode: int) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, mode
    archive.addfile(info)


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(text), 0o644
    archive.addfile(info, io.BytesIO(text.encode()))
