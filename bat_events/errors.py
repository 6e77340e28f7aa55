"""The hierarchy of errors that users and services meet; each message says what, where, and what to do."""


class BatError(Exception):
    """Anything this package raises on purpose."""


class ConfigurationError(BatError):
    """A setting or a campaign file is wrong."""


class Unable(BatError):
    """Nothing can be handled here now, whatever the event: the service halts, and the event stays as it was."""


class LogError(BatError):
    """The log cannot be read or written as asked."""


class AccessDenied(LogError):
    """The broker does not let this user do this: stop, because trying again changes nothing."""


class LoginRefused(AccessDenied):
    """The broker does not know this user, or not with this password."""


class FencedError(LogError):
    """Another instance of this service took over: stop at once, nothing of this transaction was kept."""


class Rebalanced(LogError):
    """Partitions of a consumer group were given to another member meanwhile: its work stands, ours is dropped."""


class DecodeError(LogError):
    """A record is not an event. `where` is topic, partition and offset.

    Subclasses say which kind: that decides what an operator does.
    """

    def __init__(self, message: str, *, topic: str, partition: int, offset: int) -> None:
        self.topic, self.partition, self.offset = topic, partition, offset
        super().__init__(f"{topic}[{partition}]@{offset}: {message}")


class TooLarge(DecodeError):
    """Key, value and headers are more bytes than a record may have: a broker that compresses lets them through."""


class BadEnvelope(DecodeError):
    """A header is missing, doubled or malformed."""


class UnknownSchema(DecodeError):
    """The writer's schema is neither committed here nor on the schema topic."""


class BadBody(DecodeError):
    """Truncated, trailing or mutated bytes, or values that the event's model refuses."""


class ImpossibleEvent(LogError):
    """A well-formed event that contradicts the log, such as a reward for an unknown rollout."""


class HandlerFailed(LogError):
    """Work failed for good, or waits for a person; the service stops here rather than skip the event."""
