"""Records a namespace as an archive: `python -m bat_events.replay.record BOOTSTRAP NAMESPACE FOLDER [PASSWORD_FILE]`.

The password's file is named after its user, as under BAT_HOME/secrets/kafka; where no logins are asked for there is none.
This is how golden logs are made (tests/golden).
"""

import sys
from pathlib import Path

from bat_events.errors import BatError
from bat_events.log.cluster import Address, Cluster
from bat_events.replay.archive import Manifest, write_archive
from bat_events.replay.source import KafkaSource


def record_namespace(bootstrap: Address, namespace: str, folder: Path) -> Manifest:
    """Write everything that the namespace's open topics hold now, and its schemas. Raises LogError."""
    source = KafkaSource(bootstrap, namespace)
    try:
        assert source.judged is not None
        records = [r for r in source.all_records() if r.offset < source.judged[(r.topic, r.partition)]]
        return write_archive(records, folder, source=source.name)
    finally:
        source.close()


def main(arguments: list[str]) -> int:
    """The command; 2 on wrong arguments or an unreadable log."""
    if len(arguments) not in (3, 4):
        print("usage: python -m bat_events.replay.record BOOTSTRAP NAMESPACE FOLDER [PASSWORD_FILE]", file=sys.stderr)
        return 2
    bootstrap: Address
    bootstrap, namespace, folder, *password = arguments
    if password:
        file = Path(password[0])
        principal = file.name.removeprefix(f"{namespace}.")
        bootstrap = Cluster(bootstrap=bootstrap, principal=principal, user=file.name, password_file=file)
    try:
        manifest = record_namespace(bootstrap, namespace, Path(folder))
    except BatError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{folder}: {sum(part.records for part in manifest.files):,} records in {len(manifest.files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
