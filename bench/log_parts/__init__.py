"""Parts of bench/log.py."""
