"""The public skill library: mounted read-only for the policy, and imported here so that both sides run the same code."""
