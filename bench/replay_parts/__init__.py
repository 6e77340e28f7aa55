"""Parts of bench/replay.py."""
