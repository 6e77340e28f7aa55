"""The parts of bench/peers.py. The driver of each library runs in an environment of its own, as a child process."""
