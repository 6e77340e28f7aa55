"""What bench/scaling.py and its tests are made of."""
