"""The parts of bench/asynchrony.py."""
