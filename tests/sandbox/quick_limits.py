"""Limits small enough that a test which meets one is quick."""

from bat_events.sandbox.interface import Limits

QUICK = Limits(timeout_s=5.0, memory_bytes=192 << 20, processes=16, disk_bytes=4 << 20, output_bytes=16 * 1024)
