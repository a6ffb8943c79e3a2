"""Work that nobody waits for: one thread, a bounded queue, and failures that are logged and go no further."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

logger = logging.getLogger(__name__)


class Background:
    """Runs jobs one after the other in a thread of its own, in the caller's context.

    Args:
        max_waiting: Jobs that may queue; more are dropped and counted, for they must never slow the caller down.

    Attributes:
        dropped: How many jobs were dropped.
    """

    def __init__(self, max_waiting: int) -> None:
        self.dropped = 0
        self._max_waiting = max_waiting
        self._lock = threading.Lock()
        self._waiting: set[Future[None]] = set()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ko-decision-shadow")

    def submit(self, job: Callable[[], None]) -> None:
        """Queue a job. Never raises, never blocks."""
        with self._lock:
            if len(self._waiting) >= self._max_waiting:
                self._drop(f"{self._max_waiting} are waiting already")
                return
            try:
                future = self._pool.submit(contextvars.copy_context().run, _run, job)
            except RuntimeError as error:  # closed, or the interpreter is going down
                self._drop(str(error))
                return
            self._waiting.add(future)
        future.add_done_callback(self._done)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait for what is queued; ``False`` when it took longer than ``timeout`` seconds."""
        with self._lock:
            waiting = list(self._waiting)
        return not wait(waiting, timeout).not_done

    def close(self) -> None:
        """Finish what is queued, then stop. Safe to call twice; later jobs are dropped."""
        self._pool.shutdown(wait=True)

    def _done(self, future: Future[None]) -> None:
        with self._lock:
            self._waiting.discard(future)

    def _drop(self, why: str) -> None:
        self.dropped += 1
        if self.dropped & (self.dropped - 1) == 0:  # the 1st, 2nd, 4th, 8th, …: a flood of drops is one story
            logger.warning("dropped a shadow decision (%d so far): %s", self.dropped, why)


def _run(job: Callable[[], None]) -> None:
    try:
        job()
    except Exception:  # nobody waits for it, so nobody would see it: logged with its traceback
        logger.exception("a shadow decision failed")


__all__ = ["Background"]
