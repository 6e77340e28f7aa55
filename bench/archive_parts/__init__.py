"""What bench/archive.py is made of."""
