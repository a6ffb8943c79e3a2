"""``KoDecisionModel``: the one object that tools, routers, gates and servers hold.

It is a LangChain ``BaseDecisionModel``, so ``invoke``, ``batch`` and tracing work as they do everywhere; ``decide`` and
``decide_many`` add what LangChain's answers have no field for: the verdict and its reasons.
"""

from __future__ import annotations

import asyncio
import copy
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from langchain_core.decisions import BaseDecisionModel, ClassifierRequest, ClassifierResponse, State
from langchain_core.messages.ai import UsageMetadata
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_config_list
from pydantic import ConfigDict, PrivateAttr, ValidationError, field_validator

from ko_decision_tools.calibration import TemperatureTable
from ko_decision_tools.checkpoints import BUNDLED
from ko_decision_tools.decisions import Decision
from ko_decision_tools.encoders.base import Encoder, Prepared
from ko_decision_tools.engine import Asks, Engine, Work
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.loading import load
from ko_decision_tools.policy import DEFAULT_MIN_TOP_PROBABILITY, Policy, check_probability
from ko_decision_tools.questions import Question, parse_question, parse_questions
from ko_decision_tools.validation import problems_of

QuestionLike: TypeAlias = Question | Mapping[str, Any]
Calibration: TypeAlias = TemperatureTable | str | os.PathLike[str]


class KoDecisionModel(BaseDecisionModel):
    """Answers typed questions with a calibrated probability for every option, and abstains when unsure.

    Construct it with :meth:`from_pretrained`, or with :meth:`from_encoder` in tests. The constructor itself loads
    nothing: weights are loaded once, on first use, however many threads ask at the same time.

    Attributes:
        model: ``"mini"`` (bundled), a folder, or a hub repo id.
        revision: Commit, tag or branch of a hub repo.
        device: ``"cpu"``, ``"cuda"``, ``"mps"``, or ``None`` for the best there is.
        num_threads: torch's intra-op threads, for the whole process; ``None`` leaves them alone.
        local_files_only: Never ask the hub.
        calibration: A temperature table or its file; ``None`` takes the checkpoint's own ``calibration.json``.
        allow_foreign_calibration: Accept a calibration that was fitted on other weights.
        min_top_probability: Abstain below it. 0 switches the rule off.
        when_uncalibrated: What to do when no fitted temperature applies: ``"allow"``, ``"abstain"`` or ``"error"``.
        policy: A further rule that also has to accept.
        truncation: ``"cut"`` shortens a long state and reports it; ``"error"`` refuses it.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", protected_namespaces=())

    model: str = BUNDLED
    revision: str | None = None
    device: str | None = None
    num_threads: int | None = None
    local_files_only: bool = False
    calibration: Calibration | None = None
    allow_foreign_calibration: bool = False
    min_top_probability: float = DEFAULT_MIN_TOP_PROBABILITY
    when_uncalibrated: Literal["allow", "abstain", "error"] = "allow"
    policy: Policy | None = None
    truncation: Literal["cut", "error"] = "cut"

    _engine: Engine | None = PrivateAttr(default=None)
    _loading: Any = PrivateAttr(default_factory=threading.Lock)

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise problems_of(error, fix="See the attributes of KoDecisionModel.")[0] from None

    @field_validator("min_top_probability")
    @classmethod
    def _is_probability(cls, value: float) -> float:
        return check_probability("min_top_probability", value)

    @classmethod
    def from_pretrained(cls, checkpoint: str | os.PathLike[str] = BUNDLED, **settings: Any) -> KoDecisionModel:
        """Load a checkpoint now: ``"mini"`` (bundled, offline), a folder, or a hub repo id.

        Args:
            checkpoint: Which one.
            settings: Any attribute of this class.

        Raises:
            CheckpointNotFoundError, CheckpointError, CalibrationError: One sentence with the fix.
        """
        model = cls(model=os.fspath(checkpoint), **settings)
        model.load()
        return model

    @classmethod
    def from_encoder(
        cls, encoder: Encoder, *, name: str = "scripted", temperatures: TemperatureTable | None = None, **settings: Any
    ) -> KoDecisionModel:
        """Use any encoder, for example :class:`~ko_decision_tools.encoders.scripted.ScriptedEncoder` in a test."""
        model = cls(model=name, **settings)
        model._engine = Engine.of(encoder, name=name, revision=None, temperatures=temperatures or TemperatureTable())
        return model

    def load(self) -> None:
        """Load the weights if they are not loaded yet."""
        self._ready()

    def decide(self, state: State, question: QuestionLike, **options: Any) -> Decision:
        """Answer one question about one state.

        Args:
            state: Text, messages, or nested JSON.
            question: A ``Choice``, ``Noul`` or ``Score``, or its JSON form.
            options: ``task`` (a name in ``calibration.json``), ``min_top_probability`` and ``policy`` for this call.

        Raises:
            InvalidInputError: Names the field, the value and the fix.
            EncoderError: The forward pass failed.

        Example:
            >>> from ko_decision_tools import Choice, KoDecisionModel, ScriptedEncoder
            >>> model = KoDecisionModel.from_encoder(ScriptedEncoder({"결제": 2.0}))
            >>> ask = Choice(instructions="팀?", criteria={"결제": None, "배송": None})
            >>> decision = model.decide("두 번 결제됐어요", ask)
            >>> decision.choice, round(decision.top_probability, 3), decision.abstained
            ('결제', 0.881, False)
        """
        return self.decide_many([state], question, **options)[0]

    def decide_many(
        self, states: Iterable[State], questions: QuestionLike | Sequence[QuestionLike], **options: Any
    ) -> list[Decision]:
        """Answer one question about many states, or one question per state. All pairs share length-sorted batches.

        Raises:
            InvalidInputError: As :meth:`decide`; also when there are not as many questions as states.
        """
        asks = self._asks(options)
        listed = list(states)
        if isinstance(questions, Sequence):
            if len(questions) != len(listed):
                raise InvalidInputError(
                    "questions",
                    f"has {len(questions)} entries for {len(listed)} states",
                    "Pass one question, or one per state.",
                )
            parsed = [parse_question(question) for question in questions]
        else:
            parsed = [parse_question(questions)] * len(listed)
        work = [self._prepare(state, question) for state, question in zip(listed, parsed, strict=True)]
        return self._ready().score(work, asks)

    def decide_questions(
        self, state: State, questions: Mapping[str, QuestionLike], **options: Any
    ) -> dict[str, Decision]:
        """Answer several questions about one state, by id. An answer does not depend on the others asked."""
        asks, parsed = self._asks(options), parse_questions(questions)
        decisions = self._ready().score([self._prepare(state, question) for question in parsed.values()], asks)
        return dict(zip(parsed, decisions, strict=True))

    async def adecide(self, state: State, question: QuestionLike, **options: Any) -> Decision:
        """:meth:`decide` without blocking the event loop; concurrent calls share forward passes.

        Raises:
            OverloadedError: Too many questions are waiting already.
        """
        asks, parsed = self._asks(options), parse_question(question)
        work = await asyncio.to_thread(self._prepare, state, parsed)
        return await self._ready().ascore(work, asks)

    def plan(self, state: State, question: QuestionLike) -> Prepared:
        """What a question would cost and what would be cut: tokenised, never scored.

        Returns:
            ``pairs``, ``tokens``, ``rows`` (token ids) and ``truncation``.
        """
        return self._ready().prepare(state, parse_question(question))[1]

    @property
    def temperatures(self) -> TemperatureTable:
        """The fitted temperatures in use."""
        return self._ready().reader.temperatures

    @property
    def encoder(self) -> Encoder:
        """The encoder in use."""
        return self._ready().encoder

    def close(self) -> None:
        """Stop the micro-batcher's thread after what is queued; ``adecide`` is over then."""
        if self._engine is not None:
            self._engine.batcher.close()

    # -- LangChain -----------------------------------------------------------------------------------------------

    @property
    def _provider(self) -> str:
        return "ko_decision_tools"

    def _classify(self, state: State, questions: dict[str, Any]) -> ClassifierResponse:
        return self._respond(self.decide_questions(state, questions))

    async def _aclassify(self, state: State, questions: dict[str, Any]) -> ClassifierResponse:
        parsed = parse_questions(questions)
        decisions = await asyncio.gather(*(self.adecide(state, question) for question in parsed.values()))
        return self._respond(dict(zip(parsed, decisions, strict=True)))

    def batch(
        self,
        inputs: list[ClassifierRequest],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[ClassifierResponse]:
        """LangChain's ``batch``, with all pairs of all requests in one plan instead of one thread per request."""
        return self._batch_with_config(
            self._classify_all,
            inputs,
            [self._traced_config(each) for each in get_config_list(config, len(inputs))],
            return_exceptions=return_exceptions,
            **kwargs,
        )

    async def abatch(
        self,
        inputs: list[ClassifierRequest],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[ClassifierResponse]:
        """:meth:`batch` off the event loop."""

        async def classify_all(requests: list[ClassifierRequest]) -> list[ClassifierResponse | Exception]:
            return await asyncio.to_thread(self._classify_all, requests)

        return await self._abatch_with_config(
            classify_all,
            inputs,
            [self._traced_config(each) for each in get_config_list(config, len(inputs))],
            return_exceptions=return_exceptions,
            **kwargs,
        )

    def _classify_all(self, requests: list[ClassifierRequest]) -> list[ClassifierResponse | Exception]:
        """One response per request; a request that is invalid gets its own error and costs the others nothing."""
        asks = self._asks({})
        work: list[Work] = []
        ids: list[list[str] | InvalidInputError] = []
        for request in requests:
            try:
                parsed = parse_questions(request["questions"])
                mine = [self._prepare(request["state"], question) for question in parsed.values()]
            except InvalidInputError as error:
                ids.append(error)
            else:
                ids.append(list(parsed))
                work += mine
        decisions = iter(self._ready().score(work, asks))
        return [
            entry if isinstance(entry, Exception) else self._respond({key: next(decisions) for key in entry})
            for entry in ids
        ]

    def _respond(self, decisions: Mapping[str, Decision]) -> ClassifierResponse:
        tokens = sum(decision.provenance.tokens for decision in decisions.values())
        return ClassifierResponse(
            model=self.model,
            answers={key: decision.to_answer() for key, decision in decisions.items()},
            usage=UsageMetadata(input_tokens=tokens, output_tokens=0, total_tokens=tokens),
        )

    # -- the flow ------------------------------------------------------------------------------------------------

    def _ready(self) -> Engine:
        if self._engine is None:
            with self._loading:
                if self._engine is None:
                    self._engine = load(self)
        return self._engine

    def _prepare(self, state: State, question: Question) -> Work:
        return self._ready().prepare(state, question, truncation=self.truncation)

    def _asks(self, options: Mapping[str, Any]) -> Asks:
        return Asks.of(
            options,
            min_top_probability=self.min_top_probability,
            when_uncalibrated=self.when_uncalibrated,
            policy=self.policy,
        )

    # -- copies and pickles carry the settings, never a lock; a copy shares the loaded weights ---------------------

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> KoDecisionModel:
        return copy.copy(self)

    def __getstate__(self) -> dict[Any, Any]:
        state = dict(super().__getstate__())
        state["__pydantic_private__"] = None
        return state

    def __setstate__(self, state: dict[Any, Any]) -> None:
        super().__setstate__({**state, "__pydantic_private__": {"_engine": None, "_loading": threading.Lock()}})
