"""The cross-request micro-batcher: concurrent callers share forward passes.

One thread owns the queue. It takes what is waiting, up to a token budget, scores it and hands the results back. It
never waits for a batch to fill, so a lone caller pays nothing. What one caller breaks, one caller hears of: a batch
that fails is retried prompt by prompt. Callers who left (cancelled) are dropped before they cost a pass.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Final

from ko_decision_tools.distributions import Scores
from ko_decision_tools.encoders.base import Encoder, Prepared
from ko_decision_tools.errors import EncoderError, OverloadedError

MAX_WAITING: Final = 10_000
BATCH_TOKENS: Final = 8_192

_Entry = tuple[Prepared, "Future[Scores]"]


class MicroBatcher:
    """Scores prepared prompts for many callers at once.

    Args:
        encoder: What scores them.
        max_tokens: Tokens taken into one call of the encoder; a larger single prompt goes alone.
        max_waiting: Prompts that may queue before :meth:`submit` refuses.

    Use as a context manager, or call :meth:`close`. The thread is a daemon and starts with the first prompt.
    """

    def __init__(self, encoder: Encoder, *, max_tokens: int = BATCH_TOKENS, max_waiting: int = MAX_WAITING) -> None:
        self._encoder, self._max_tokens, self._max_waiting = encoder, max_tokens, max_waiting
        self._waiting: deque[_Entry] = deque()
        self._wake = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, prepared: Prepared) -> Future[Scores]:
        """Queue one prompt; the future holds its scores, or the error its scoring met.

        Raises:
            OverloadedError: The queue is full; nothing was queued.
            EncoderError: The batcher is closed.
        """
        future: Future[Scores] = Future()
        with self._wake:
            if self._closed:
                raise EncoderError("the micro-batcher is closed")
            if len(self._waiting) >= self._max_waiting:
                raise OverloadedError(f"{self._max_waiting} prompts are waiting already; retry later")
            self._waiting.append((prepared, future))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ko-decision-batcher", daemon=True)
                self._thread.start()
            self._wake.notify()
        return future

    def close(self) -> None:
        """Finish what is queued, then stop. Safe to call twice."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def __enter__(self) -> MicroBatcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        batch: list[_Entry] = []
        try:
            while batch := self._take():
                self._score(batch)
        except BaseException as error:
            # Nobody may be left hanging, whatever happened: fail everyone, refuse newcomers, then let it be seen.
            self._fail_all(batch, error)
            raise

    def _take(self) -> list[_Entry]:
        """Block for work; at least one entry, then as many as the budget holds. Empty when closed and drained."""
        with self._wake:
            while not self._waiting and not self._closed:
                self._wake.wait()
            batch: list[_Entry] = []
            tokens = 0
            while self._waiting and (not batch or tokens + self._waiting[0][0].tokens <= self._max_tokens):
                entry = self._waiting.popleft()
                batch.append(entry)
                tokens += entry[0].tokens
            return batch

    def _score(self, batch: Sequence[_Entry]) -> None:
        live = [entry for entry in batch if entry[1].set_running_or_notify_cancel()]
        if not live:
            return
        try:
            results = self._encoder.score([prepared for prepared, _ in live])
        except Exception as error:
            if len(live) > 1:
                for entry in live:
                    self._score_alone(entry)
            else:
                live[0][1].set_exception(error)
            return
        if len(results) != len(live):
            wrong = EncoderError(f"the encoder returned {len(results)} results for {len(live)} prompts")
            for _, future in live:
                future.set_exception(wrong)
            return
        for (_, future), scores in zip(live, results, strict=True):
            future.set_result(scores)

    def _score_alone(self, entry: _Entry) -> None:
        prepared, future = entry
        try:
            future.set_result(self._encoder.score([prepared])[0])
        except Exception as error:
            future.set_exception(error)

    def _fail_all(self, batch: Sequence[_Entry], error: BaseException) -> None:
        with self._wake:
            self._closed = True
            left, self._waiting = [*batch, *self._waiting], deque()
        for _, future in left:
            if not future.done() and (future.running() or future.set_running_or_notify_cancel()):
                future.set_exception(EncoderError(f"the micro-batcher stopped: {error!r}"))


__all__ = ["MicroBatcher"]
