"""Parts of bench/bank.py."""
