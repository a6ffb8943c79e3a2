"""Shadow mode: the model decides beside today's router or LLM, and only its log knows, until you let it go live."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from langchain_core.callbacks import AsyncCallbackManagerForChainRun as ForAsyncRun
from langchain_core.callbacks import CallbackManagerForChainRun as ForRun
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import coerce_to_runnable
from langchain_core.runnables.config import patch_config

from ko_decision_langgraph.accounting import Accounting
from ko_decision_langgraph.asking import Asker, ModelAsker, RouterAsker, Veil
from ko_decision_langgraph.background import Background
from ko_decision_langgraph.kill_switch import switched_off
from ko_decision_langgraph.shadow_log import Log, Mode, Scribe, Seen, as_label, to_log
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.model import KoDecisionModel, QuestionLike
from ko_decision_tools.router import DecisionRouter, RouteResult

logger = logging.getLogger(__name__)

TODAY: Final = "(today)"


@dataclass(frozen=True, slots=True)
class _Judged:
    """What the model made of an input; ``answer`` is set when the model decides."""

    result: RouteResult | None
    milliseconds: float
    error: str | None = None
    answer: Any = None

    @property
    def decides(self) -> bool:
        return self.error is None and self.result is not None and not self.result.escalated


class Shadow(Runnable[Any, Any]):
    """Today's router, LLM or rule, with a model that listens.

    **Shadow** (the default): today's answer is returned, always and at once. The model judges the same input afterwards
    in a thread of its own, and both answers are logged. Whatever goes wrong there, a slow model and a full disk
    included, is logged by ``logging`` and disturbs nobody.

    **Live** (``live=True``): the model decides first. What it accepts is returned and today's path is not called; what
    it is not sure of, and whatever fails, goes to today's path as before. Both are logged.

    **Off** (``KO_DECISION_OFF`` set): today's path alone. The switch is read per call.

    It is a Runnable: use it as a node, on a conditional edge, in a chain, or call ``invoke``.

    Args:
        judge: A router, or a model with a ``question``.
        today: What answers today: a Runnable (a chat model, a chain, a router) or a function of the input.
        log: A file that gets one JSON line per answer, for ``ko-decision shadow-report``; or a function of the record.
        question: What the model is asked; only for a model.
        live: Go live; or a function that says so per call, for a flag that can be turned without a deploy.
        as_label: Today's answer as one of the model's labels, ``None`` when it is none. By default texts, messages and
            yes/no are read.
        as_answer: An accepted result in the form of today's answers, for going live; the route's name by default.
        text_key: Key of a graph's state that holds the text; ``None`` reads the newest human message. Give the
            router's own here too: the log's ``id`` is a hash of the text.
        log_text: Log the customer's words too.
        salt: A secret put before the text that is hashed.
        max_waiting: Inputs that may wait for the listening model; more are not judged.
        accounting: Counts the decisions, and when live the escalations and the LLM calls avoided.
        task, min_top_probability: As for ``KoDecisionModel.decide``; only for a model.

    Raises:
        InvalidInputError: At construction, for a setting that cannot be used.

    Example:
        >>> from ko_decision_tools import DecisionRouter, KoDecisionModel, ScriptedEncoder
        >>> router = DecisionRouter(KoDecisionModel.from_encoder(ScriptedEncoder({"배송": 3.0})), ["결제", "배송"])
        >>> seen = []
        >>> with Shadow(router, lambda text: "결제", log=seen.append) as shadow:
        ...     shadow.invoke("택배가 안 와요")
        '결제'
        >>> seen[0]["today"], seen[0]["guess"], round(seen[0]["top_probability"], 3)
        ('결제', '배송', 0.953)
    """

    def __init__(
        self,
        judge: DecisionRouter | KoDecisionModel,
        today: Runnable[Any, Any] | Callable[[Any], Any],
        *,
        log: Path | str | Log,
        question: QuestionLike | None = None,
        live: bool | Callable[[], bool] = False,
        as_label: Callable[[Any], str | None] = as_label,
        as_answer: Callable[[RouteResult], Any] = attrgetter("route"),
        text_key: str | None = None,
        log_text: bool = False,
        salt: str = "",
        max_waiting: int = 1_000,
        accounting: Accounting | None = None,
        task: str | None = None,
        min_top_probability: float | None = None,
        name: str = "shadow",
    ) -> None:
        self._asker = _asker(judge, question, text_key, accounting, task, min_top_probability)
        self._today = coerce_to_runnable(today)
        self._log, self._live = to_log(log), live
        self._as_label, self._as_answer = as_label, as_answer
        self._scribe = Scribe(self._asker.destinations, text_key, log_text, salt)
        self._background = Background(max_waiting)
        self._accounting, self.name = accounting, name

    @property
    def live(self) -> bool:
        """Whether the model decides now."""
        return self._live() if callable(self._live) else self._live

    @property
    def dropped(self) -> int:
        """How many inputs were not judged or not logged because too many were waiting."""
        return self._background.dropped

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything so far is logged; ``False`` when that took longer than ``timeout`` seconds."""
        return self._background.flush(timeout)

    def close(self) -> None:
        """Log what is waiting, then stop listening. Answers still come, unlogged."""
        self._background.close()

    def __enter__(self) -> Shadow:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Today's answer; when live, the model's where it is sure."""

        def run(_: Any, run_manager: ForRun, config: RunnableConfig) -> Any:
            nested = patch_config(config, callbacks=run_manager.get_child())
            if switched_off():
                return self._today.invoke(input, nested)
            judged = self._judge(input, live=True) if self.live else None
            if judged is not None and judged.decides:
                return self._decided(input, judged)
            started = time.perf_counter()
            answer = self._today.invoke(input, nested)
            self._compare(input, judged, answer, _since(started))
            return answer

        return self._call_with_config(run, Veil(input), config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """:meth:`invoke` off the event loop; the listening model never runs on it."""

        async def run(_: Any, run_manager: ForAsyncRun, config: RunnableConfig) -> Any:
            nested = patch_config(config, callbacks=run_manager.get_child())
            if switched_off():
                return await self._today.ainvoke(input, nested)
            judged = await self._ajudge(input) if self.live else None
            if judged is not None and judged.decides:
                return self._decided(input, judged)
            started = time.perf_counter()
            answer = await self._today.ainvoke(input, nested)
            self._compare(input, judged, answer, _since(started))
            return answer

        return await self._acall_with_config(run, Veil(input), config)

    # -- the model's side: nothing here may disturb today's -----------------------------------------------------------

    def _judge(self, input: Any, *, live: bool) -> _Judged:
        started = time.perf_counter()
        try:
            return self._judged(self._asker.ask(input), started, live=live)
        except Exception as error:  # not hidden: logged with its traceback, and named in the record
            return _broken(error, started)

    async def _ajudge(self, input: Any) -> _Judged:
        started = time.perf_counter()
        try:
            return self._judged(await self._asker.aask(input), started, live=True)
        except Exception as error:  # as in _judge
            return _broken(error, started)

    def _judged(self, result: RouteResult, started: float, *, live: bool) -> _Judged:
        elapsed = _since(started)
        answer = self._as_answer(result) if live and not result.escalated else None
        return _Judged(result, elapsed, answer=answer)

    def _decided(self, input: Any, judged: _Judged) -> Any:
        """The model's answer, live."""
        if self._accounting is not None:
            self._accounting.llm_call_avoided()
        seen = Seen(_snapshot(input), "live", None, None, judged.milliseconds, judged.result)
        self._background.submit(lambda: self._log(self._scribe.record(seen)))
        return judged.answer

    def _compare(self, input: Any, judged: _Judged | None, answer: Any, today_ms: float) -> None:
        """Log today's answer beside the model's, which is asked now unless it was before (live, and not sure)."""
        if judged is not None and self._accounting is not None:
            self._accounting.escalated()
        kept = _snapshot(input)

        def job() -> None:
            found = judged or self._judge(kept, live=False)
            mode: Mode = "shadow" if judged is None else "live"
            label = self._label(answer)
            seen = Seen(kept, mode, label, today_ms, found.milliseconds, found.result, found.error)
            self._log(self._scribe.record(seen))

        self._background.submit(job)

    def _label(self, answer: Any) -> str | None:
        try:
            return self._as_label(answer)
        except Exception:  # the comparison is lost, the model's answer is not
            logger.exception("as_label failed; today's answer is logged without a label")
            return None


def _asker(
    judge: DecisionRouter | KoDecisionModel,
    question: QuestionLike | None,
    text_key: str | None,
    accounting: Accounting | None,
    task: str | None,
    min_top_probability: float | None,
) -> Asker:
    if isinstance(judge, DecisionRouter):
        given = {"question": question, "task": task, "min_top_probability": min_top_probability}
        for field, value in given.items():
            if value is not None:
                raise InvalidInputError(field, "is given beside a router", "Set it on the router.", value=value)
        return RouterAsker(judge, accounting)
    if question is None:
        raise InvalidInputError("question", "is missing", "Say what the model is asked, or pass a DecisionRouter.")
    options = {"task": task, "min_top_probability": min_top_probability}
    return ModelAsker(
        judge, question, unsure=TODAY, text_key=text_key, on_error="raise", accounting=accounting, options=options
    )


def _broken(error: Exception, started: float) -> _Judged:
    logger.error("the model beside today's path failed: %s", type(error).__name__, exc_info=error)
    return _Judged(None, _since(started), error=type(error).__name__)


def _snapshot(input: Any) -> Any:
    """The input as it is now: whoever owns it may change it before it is judged."""
    if isinstance(input, Mapping):
        return {key: list(value) if isinstance(value, list) else value for key, value in input.items()}
    return list(input) if isinstance(input, list) else input


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1_000


__all__ = ["TODAY", "Shadow"]
