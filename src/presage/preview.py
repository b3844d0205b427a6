"""Reports of running trials, sent to the storage so that others see them."""

import time
import weakref
from collections.abc import Callable

EVERY = 1.0  # seconds between two, at least: a report should cost nothing, and a commit takes milliseconds

Send = Callable[[int, int, list[tuple[int, float]]], bool]


class Preview:
    """Sends what a trial has reported, now and then; what is not sent comes with the trial's end.

    Args:
        number: of the trial.
        send: a method that takes number, how many were sent before, and what is new; says whether it could.
    """

    def __init__(self, number: int, send: Send) -> None:
        self._number, self._send = number, weakref.WeakMethod(send)  # a trial does not keep its study alive
        self._sent, self._last = 0, time.monotonic()

    def __call__(self, reports: list[tuple[int, float]]) -> None:
        now, send = time.monotonic(), self._send()
        if send is not None and now - self._last >= EVERY and send(self._number, self._sent, reports[self._sent :]):
            self._sent, self._last = len(reports), now
