"""Parts of bench/catchup.py."""
