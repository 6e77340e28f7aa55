"""Decode a million inputs that are almost events: an event or a typed error comes out of each, nothing else.

make bench NAME=fuzz ARGS="--inputs 1000000 --seed 1". Exits 1 at the first error of another kind, with the input's number.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bat_events.codec import Codec
from bat_events.errors import DecodeError
from tests.support.fuzzing import Fuzzer


def main() -> int:
    """Count what came out, and how fast."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    codec, found = Codec(), Counter[str]()
    began, spent = time.perf_counter(), 0.0
    for number, record in enumerate(Fuzzer(asked.seed).inputs(asked.inputs)):
        start = time.perf_counter()
        try:
            codec.decode(record)
            kind = "event"
        except DecodeError as error:
            kind = type(error).__name__
            if (error.topic, error.partition, error.offset) != (record.topic, record.partition, record.offset):
                print(f"input {number} of seed {asked.seed}: {error!r} does not name its place")
                return 1
        except BaseException as error:
            print(f"input {number} of seed {asked.seed}: {type(error).__name__}: {error}")
            raise
        spent += time.perf_counter() - start
        found[kind] += 1
    print(f"{asked.inputs:,} inputs of seed {asked.seed} in {time.perf_counter() - began:.0f} s")
    print(f"decoded at {asked.inputs / spent:,.0f} inputs/s")
    for kind, count in found.most_common():
        print(f"  {kind:15} {count:9,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
