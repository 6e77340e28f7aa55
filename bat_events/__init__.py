"""bat-events: an event-sourced implementation of Benchmark-as-Teacher."""

__version__ = "0.1.0"
