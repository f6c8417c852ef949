"""Waiting for a condition, with a deadline."""

import time

POLL_SECONDS = 0.02


class TimedOut(AssertionError):
    """The condition did not come true in time."""


def wait_until(condition, what, seconds=60.0, poll=POLL_SECONDS):
    """The condition's first true value. `what` completes the sentence "waited in vain for …"."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimedOut(f"waited {seconds} s in vain for {what() if callable(what) else what}")
        time.sleep(poll)
