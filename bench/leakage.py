"""The leakage gate: states a second on two processes, datasketch on the same sketches, recall and false rejections.

make bench NAME=leakage ARGS="--states 4000 --clean 20000"
"""

import argparse
import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bat_events.benchmark.interface import TaskKey
from bat_events.benchmark.registry import benchmark
from bat_events.consumers.fingerprinter import shared_texts
from bat_events.consumers.fingerprints import file_text, task_texts
from bat_events.domain.leakage import Fingerprints, Scanner, cleared, make_fingerprints
from bat_events.domain.leakage.keyed import Hasher, Hashes
from bat_events.domain.leakage.sketch import PERMUTATIONS, sketches
from bat_events.domain.leakage.stream import Reader, shingles, stream
from bat_events.domain.vocabulary import Focus, Outcome, Split, Track
from bat_events.events.plan import CampaignPlan
from tests.support.leakage_injections import LEXICAL
from tests.support.leakage_texts import clean_state, text

KEY = b"bench key of 32 bytes, not secret"
TRACKS = (Track.SEGMENTATION, Track.ENHANCEMENT)
State = dict[str, Any]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--states", type=int, default=4000, help="mini-benchmark states for the speed")
    options.add_argument("--clean", type=int, default=20_000, help="clean states for false rejections, half generated")
    options.add_argument("--cases", type=int, default=200, help="injected cases of each kind")
    options.add_argument("--seed", default="bench", help="of everything that is generated")
    given = options.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores: figures fall with it")
    mini_known, generated_known, held = fingerprints(given.seed)
    began = time.perf_counter()
    mini = split_work(mini_states, [(given.states // 2, f"{given.seed} speed {part}") for part in range(2)])
    print(f"made {2 * len(mini[0])} states of the mini benchmark in {time.perf_counter() - began:.0f} s")
    speed("mini benchmark, every state new", mini, mini_known)
    made = [[clean_state(random.Random(f"{given.seed} {part} {n}")) for n in range(1000)] for part in range(2)]
    speed("generated, every text new", made, generated_known)
    beside_datasketch(made[0])
    recall(given.seed, given.cases, held, generated_known)
    false_rejections(given.seed, given.clean, mini, mini_known, generated_known)


def fingerprints(seed: str) -> tuple[Fingerprints, Fingerprints, list[str]]:
    """Of the mini benchmark's held-out instances, of 70 generated texts of 240 words, and those texts."""
    plan, known = CampaignPlan(benchmark="mini", tracks=TRACKS), benchmark("mini")
    rng = random.Random(f"{seed} held")
    held = [text(rng, 240) for _ in range(70)]
    own = [
        part
        for track in TRACKS
        for number in range(20)
        for part in task_texts(known.build(key(track, Focus.E2E, number, rng, Split.HELDOUT)))
    ]
    mini = make_fingerprints([*own, *held], KEY, shared_texts(known, plan)[0])
    shared = [part for _ in range(40) for part in texts_of(clean_state(rng))]
    return mini, make_fingerprints(held, KEY, shared), held


def key(track: Track, focus: Focus, number: int, rng: random.Random, split: Split) -> TaskKey:
    """A task key of a random seed."""
    outcome = list(Outcome)[number % len(Outcome)]
    return TaskKey(track=track, focus=focus, outcome=outcome, seed=rng.getrandbits(62), split=split)


def texts_of(state: State) -> list[str]:
    """Every text of a state."""
    return [state["system"], state["prompt"], *state["files"], *state["files"].values()]


def mini_states(count: int, seed: str) -> list[State]:
    """Practice states of the mini benchmark as the gate reads them, each of a seed of its own."""
    rng, known, found = random.Random(seed), benchmark("mini"), []
    for number in range(count):
        task = known.build(key(TRACKS[number % 2], list(Focus)[number % 6], number, rng, Split.PRACTICE))
        files = {path: file_text(content) for path, content in sorted({**task.inputs, **task.files}.items())}
        found.append({"files": files, "prompt": task.prompt, "system": task.system})
    return found


def split_work(call: Callable[..., Any], parts: Sequence[tuple[Any, ...]]) -> list[Any]:
    """`call` of each part in a process of its own."""
    with multiprocessing.get_context("fork").Pool(len(parts)) as pool:
        return pool.starmap(call, parts)


def speed(name: str, parts: Sequence[Sequence[State]], known: Fingerprints) -> None:
    """States a second of two processes at once, each from cold caches."""
    measured = split_work(_scan, [(part, known) for part in parts])
    size = np.mean([len(json.dumps(state)) for part in parts for state in part])
    together = sum(len(part) / wall for part, (wall, _, _) in zip(parts, measured, strict=True))
    cpu = sum(cpu for _, cpu, _ in measured) / sum(map(len, parts))
    rejected = sum(rejected for _, _, rejected in measured)
    print(
        f"{name}: {together:,.0f} states/s on 2 processes ({1e6 * cpu:,.0f} µs of CPU each), mean {size:,.0f} bytes of text,"
        f" {rejected} of {sum(map(len, parts))} rejected"
    )


def _scan(states: Sequence[State], known: Fingerprints) -> tuple[float, float, int]:
    scanner, rejected = Scanner(known), 0
    wall, cpu = time.perf_counter(), time.process_time()
    for state in states:
        rejected += not cleared(scanner.check(state))
    return time.perf_counter() - wall, time.process_time() - cpu, rejected


def beside_datasketch(states: Sequence[State]) -> None:
    """The same 128-permutation sketches of the same shingles, one process each."""
    from datasketch import MinHash

    reader = Reader(Hasher(KEY))
    sets: list[Hashes] = [shingles(reader.hasher, stream(reader.lines(s["prompt"])))[0] for s in states[:500]]
    began = time.process_time()
    for shingle_set in sets:
        sketches([shingle_set])
    ours = time.process_time() - began
    began = time.process_time()
    for shingle_set in sets:
        made = MinHash(num_perm=PERMUTATIONS)
        made.update_batch([value.tobytes() for value in shingle_set])
    theirs = time.process_time() - began
    mean = np.mean([len(shingle_set) for shingle_set in sets])
    print(
        f"sketches of {mean:.0f} shingles: {len(sets) / ours:,.0f}/s here, {len(sets) / theirs:,.0f}/s with datasketch"
        f" ({theirs / ours:.0f} times)"
    )


def recall(seed: str, cases: int, held: Sequence[str], known: Fingerprints) -> None:
    """How many injected cases of each kind are rejected, and by which checks."""
    scanner = Scanner(known)
    for name, inject in LEXICAL.items():
        rng, found = random.Random(f"{seed} {name}"), 0
        by: dict[str, int] = {}
        for _ in range(cases):
            results = scanner.check(inject(rng, rng.choice(held), clean_state(rng, words=60)))
            found += not cleared(results)
            for result in results:
                by[result.name] = by.get(result.name, 0) + (not result.passed)
        print(f"recall {found / cases:.3f}  {name}: " + ", ".join(f"{k} {v}" for k, v in by.items() if v))
    for words in (40, 80, 120, 240):
        rng, found = random.Random(f"{seed} short {words}"), 0
        for _ in range(cases):
            held_part = " ".join(rng.choice(held).split()[:words])
            state = LEXICAL["20 % of words changed"](rng, held_part, clean_state(rng, words=60))
            found += not cleared(scanner.check(state))
        print(f"recall {found / cases:.3f}  20 % of words changed in {words} words")


def false_rejections(
    seed: str, count: int, mini: Sequence[Sequence[State]], mini_known: Fingerprints, known: Fingerprints
) -> None:
    """Clean states that are rejected: the mini benchmark's, the rest generated."""
    states = [state for part in mini for state in part][: count // 2]
    _, _, bad = _scan(states, mini_known)
    generated = split_work(_scan_generated, [(seed, part, (count - len(states)) // 2, known) for part in range(2)])
    print(f"false rejections: {bad} of {len(states)} of the mini benchmark, ", end="")
    print(f"{sum(generated)} of {2 * ((count - len(states)) // 2)} generated")


def _scan_generated(seed: str, part: int, count: int, known: Fingerprints) -> int:
    rng, scanner = random.Random(f"{seed} clean {part}"), Scanner(known)
    return sum(not cleared(scanner.check(clean_state(rng))) for _ in range(count))


if __name__ == "__main__":
    main()
