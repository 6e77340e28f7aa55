"""Parts of bench/rebuild.py."""
