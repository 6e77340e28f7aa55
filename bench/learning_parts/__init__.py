"""The parts of `bench/learning.py`: run a campaign, measure two checkpoints on the same cells, compare, report, draw."""
