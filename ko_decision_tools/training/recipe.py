"""What a training recipe holds: every choice that shapes the weights. Checked, frozen, with the card's defaults.

A key that is not known is an error: a misspelt learning rate must not train with the default.
See :mod:`~ko_decision_tools.training.recipe_files` for reading one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.suites.own import INSTRUCTIONS

Share = Field(default=1.0, gt=0)


class _Checked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Base(_Checked):
    """The encoder to start from.

    Attributes:
        model: ``"mini"``, a folder, or a hub repo; a pair-scoring checkpoint keeps its head, any other gets a new one.
        revision: Commit of a hub repo.
        layers: Keep only the lowest so many layers; all by default.
        dropout: Of hidden states and attention; the base's own by default.
        freeze_embeddings: Train everything but the embeddings: less memory, faster, and rare words keep their place.
        licence: For the model card.
    """

    model: str
    revision: str | None = None
    layers: PositiveInt | None = None
    dropout: float | None = Field(default=None, ge=0, lt=1)
    freeze_embeddings: bool = False
    licence: str | None = None


class Phrasing(_Checked):
    """One way of asking a task's questions; rows take a task's phrasings in turn, by their shares.

    Attributes:
        share: Weight among the task's phrasings.
        instructions: Wordings to draw from; the question's own by default.
        criteria: Other labels and descriptions (``Choice``) or level texts (``Score``) in the question's own order.
        bare: Labels without their descriptions.
        flip: The wording asks for the opposite: yes becomes no (``Noul``).
        yes_no: Ask a yes/no question instead. With ``{label}`` in it, the right label or a wrong one, half and half;
            without, the answer is yes when the right one is among ``yes_if``.
        yes_if: Labels (``Choice``) or levels (``Score``) that make the answer yes.
        skip: Labels or levels for which the yes/no question has no clear answer: those rows are asked as they are.
    """

    share: float = Share
    instructions: tuple[str, ...] = ()
    criteria: dict[str, str | None] | tuple[str, ...] | None = None
    bare: bool = False
    flip: bool = False
    yes_no: tuple[str, ...] = ()
    yes_if: tuple[str | int, ...] = ()
    skip: tuple[str | int, ...] = ()

    @model_validator(mode="after")
    def _yes_needs_a_meaning(self) -> Phrasing:
        if any("{label}" not in text for text in self.yes_no) and not self.yes_if:
            raise ValueError("a yes_no wording without {label} needs yes_if")
        if self.yes_no and (self.instructions or self.criteria or self.bare or self.flip):
            raise ValueError("yes_no replaces the question: instructions, criteria, bare and flip do not go with it")
        return self


class NoneOption(_Checked):
    """An explicit "none of these" among the options of a share of the rows: right where no option is, else a decoy."""

    share: float = Field(gt=0, le=1)
    options: dict[str, str | None] = Field(min_length=1)


class Task(_Checked):
    """Where a task's rows come from, and how they are asked.

    Attributes:
        suite: A suite of :mod:`ko_decision_tools.suites` that has the task under its name here.
        file: A CSV, TSV, JSON or JSONL file instead, relative to the data folder (or the recipe).
        routes: For a file of texts and labels: a routing table or a YAML mapping of label to description.
        question: For a file of texts and labels: the whole question (``type``, ``instructions``, ``criteria``).
        instructions: For a file of texts and labels: the question's text, when it is made from the labels.
        text_column, label_column: The file's columns. An empty label means that no option is right; so does a label
            that a routing table lacks.
        encoding: The file's.
        phrasings: Ways of asking; the question as it is by default.
        negatives: Options sampled beside those that the target gives weight to (of a ``Score``, and their
            neighbours); all of them by default. The optimum is the same, at a fraction of the tokens.
        none_option: See :class:`NoneOption`.
        borrow: Share of the rows that get one more wrong option, from another row of the task.
        soft_gold: Train towards human votes where rows have them, not towards the majority.
        limit: At most so many rows.
        licence: For the model card.
    """

    suite: str | None = None
    file: Path | None = None
    routes: Path | None = None
    question: dict[str, Any] | None = None
    instructions: str = INSTRUCTIONS
    text_column: str = "text"
    label_column: str = "label"
    encoding: str = "utf-8"
    phrasings: tuple[Phrasing, ...] = Field(default=(Phrasing(),), min_length=1)
    negatives: PositiveInt | None = None
    none_option: NoneOption | None = None
    borrow: float = Field(default=0.0, ge=0, le=1)
    soft_gold: bool = True
    limit: PositiveInt | None = None
    licence: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Task:
        if (self.suite is None) == (self.file is None):
            raise ValueError("give either suite or file")
        return self


class Optimizer(_Checked):
    """AdamW in two groups (encoder and head), warmed up and then decayed to zero.

    ``warmup`` is a share of the steps; ``decay: none`` keeps the rate where the warm-up left it.
    """

    encoder_lr: float = Field(default=1e-5, gt=0)
    head_lr: float = Field(default=1e-4, gt=0)
    weight_decay: float = Field(default=0.01, ge=0)
    betas: tuple[float, float] = (0.9, 0.999)
    warmup: float = Field(default=0.1, ge=0, lt=1)
    decay: Literal["linear", "none"] = "linear"
    clip: float = Field(default=1.0, gt=0)


class Stage(_Checked):
    """One run over some tasks, starting from where the stage before it ended.

    Attributes:
        name: Its folder's name.
        objective: ``"options"``: soft-target cross-entropy over a row's options. ``"first_token"``: self-distillation
            of the base's mean-pooled embedding into the first token, for bases whose first token says nothing.
        tasks: Which tasks; all by default. A task that stood in an earlier stage is replayed.
        epochs: Passes over all their rows, or
        steps: so many steps, with
        rows: rows of each task per step (2.5 is two or three, half and half); the tasks are its keys.
        optimizer: Instead of the recipe's.
        max_tokens: Instead of the recipe's.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    objective: Literal["options", "first_token"] = "options"
    tasks: tuple[str, ...] = ()
    epochs: PositiveInt | None = None
    steps: PositiveInt | None = None
    rows: dict[str, float] = {}
    optimizer: Optimizer | None = None
    max_tokens: PositiveInt | None = None

    @model_validator(mode="after")
    def _one_length(self) -> Stage:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("give either epochs or steps")
        if (self.steps is None) != (not self.rows) or (self.rows and self.tasks):
            raise ValueError("steps go with rows (whose keys are the tasks), epochs with tasks")
        if any(count <= 0 for count in self.rows.values()):
            raise ValueError("rows has a task without rows")
        return self


class Selection(_Checked):
    """Which weights of a stage are kept: those with the lowest mean error, measured every so many steps.

    A task's error is ``1 - accuracy``, of a ``Score`` the mean absolute error over its range. ``source: dev`` uses the
    suites' dev rows where there are any; ``holdout`` never looks at them, and sets ``share`` of the training groups
    aside instead; ``none`` keeps the last weights. A task that would give fewer than ``fewest`` rows to choose by gives
    none: a choice on a handful of rows is a draw of lots, and the rows are better trained on.
    """

    source: Literal["dev", "holdout", "none"] = "holdout"
    share: float = Field(default=0.02, gt=0, lt=0.5)
    limit: PositiveInt = 300
    fewest: PositiveInt = 20
    every: PositiveInt | None = None


class Recipe(_Checked):
    """Everything that shapes a checkpoint; see the classes above.

    Attributes:
        batch_rows: Rows per step in stages of epochs.
        micro_options: Most options in one forward pass; a row is never cut, so a row with more goes alone.
        micro_tokens: Most padded tokens in one forward pass, if it matters (on CPUs about 3,000).
        precision: ``"auto"``: bfloat16 matrix products where the hardware has them (CUDA, CPUs with AMX).
        save_every: Steps between checkpoints to resume from.
        licence, limits: For the model card.
        notes: Whatever else should be known about it.
    """

    name: str
    base: Base
    tasks: dict[str, Task] = Field(min_length=1)
    stages: tuple[Stage, ...] = Field(min_length=1)
    optimizer: Optimizer = Optimizer()
    batch_rows: PositiveInt = 32
    micro_options: PositiveInt = 64
    micro_tokens: PositiveInt | None = None
    max_tokens: PositiveInt = 512
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    seed: int = 1
    selection: Selection = Selection()
    save_every: PositiveInt = 500
    log_every: PositiveInt = 50
    licence: str | None = None
    limits: tuple[str, ...] = ()
    notes: str = ""

    @model_validator(mode="after")
    def _stages_name_tasks(self) -> Recipe:
        names = [stage.name for stage in self.stages]
        if len(set(names)) != len(names):
            raise ValueError("two stages have the same name")
        for stage in self.stages:
            unknown = sorted({*stage.tasks, *stage.rows} - set(self.tasks))
            if unknown:
                raise ValueError(f"stage {stage.name} has a task that is not under tasks: {unknown[0]}")
        return self

    def tasks_of(self, stage: Stage) -> tuple[str, ...]:
        """The names of the tasks a stage trains on, in the recipe's order."""
        wanted = set(stage.rows or stage.tasks or self.tasks)
        return tuple(name for name in self.tasks if name in wanted)

    def with_task(self, name: str, task: Task) -> Recipe:
        """The recipe with one more task in every stage; in stages of steps it gets a quarter of the rows on top.

        Raises:
            InvalidInputError: It has a task of that name.
        """
        if name in self.tasks:
            raise InvalidInputError("task", f"{name} is in the recipe already", "Rename the file.")
        stages = []
        for stage in self.stages:
            extra = {name: max(1.0, sum(stage.rows.values()) / 4)} if stage.rows else {}
            named = (*stage.tasks, name) if stage.tasks else ()
            stages.append(stage.model_copy(update={"rows": {**stage.rows, **extra}, "tasks": named}))
        return self.model_copy(update={"tasks": {**self.tasks, name: task}, "stages": tuple(stages)})

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, every default written out."""
        return self.model_dump(mode="json")
