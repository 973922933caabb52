"""A clock in seconds, for what takes one in place of ``time.time``."""


class Clock:
    """Move only when a test sets ``now`` or sleeps; ``slept`` has the seconds of each sleep."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
