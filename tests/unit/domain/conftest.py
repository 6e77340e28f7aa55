"""Property tests here try the same examples in every run, without deadlines: the machine may be busy."""

from hypothesis import settings

settings.register_profile("domain", deadline=None, database=None, derandomize=True, max_examples=40)
settings.load_profile("domain")
