"""Writes `schemas/*.avsc` from the typed events: `python -m bat_events.events.schema_files`.

A file that exists is never changed: a changed event needs a new VERSION, which makes a new file beside the old one.
Earlier versions (events/old) are compared with their files too.
"""

import json
import sys
from pathlib import Path

from bat_events.codec import schema_file, schema_folder
from bat_events.events.avro import schema_of
from bat_events.events.base import event_versions


def render(schema: object) -> str:
    """A schema as it stands in its file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def write(folder: Path, *, overwrite: bool = False) -> list[str]:
    """Write what is missing and return the names of files that differ from their event and were left alone."""
    differing = []
    for cls in event_versions():
        path = folder / schema_file(cls)
        text = render(schema_of(cls))
        if not path.exists() or overwrite:
            path.write_text(text)
        elif path.read_text() != text:
            differing.append(path.name)
    return differing


def main() -> int:
    """Write, and say which events need a new VERSION. `--overwrite` is for schemas that no log was written with yet."""
    differing = write(schema_folder(), overwrite="--overwrite" in sys.argv[1:])
    for name in differing:
        print(f"{name} differs from its event: give the event a new VERSION, a committed schema is never edited")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
