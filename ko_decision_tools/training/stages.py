"""One stage in its folder: build its trainer, run or resume it, and leave its weights and its record.

::

    stages/1-stage-1/checkpoint-500/    Trainer's, while the stage runs
    stages/1-stage-1/best.safetensors   the best weights so far, while it runs
    stages/1-stage-1/weights.safetensors, result.json      what a finished stage leaves
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from transformers import TrainerCallback, TrainingArguments

from ko_decision_tools.encoders.pair_tokens import PairTokenizer
from ko_decision_tools.training.collator import Collator
from ko_decision_tools.training.model import OptionScorer, Precision, load_encoder
from ko_decision_tools.training.objectives import FirstTokenObjective, Objective, OptionsObjective
from ko_decision_tools.training.plan import PlannedRows, plan_stage
from ko_decision_tools.training.recipe import Recipe, Stage
from ko_decision_tools.training.rows import RowMaker
from ko_decision_tools.training.selection import DevRows
from ko_decision_tools.training.trainer import BEST, StageTrainer, write_weights

WEIGHTS, RESULT = "weights.safetensors", "result.json"
_EVALUATIONS = 10  # of a stage of steps, unless the recipe says how often


@dataclass(frozen=True, slots=True)
class Bench:
    """What all stages of a run share.

    Attributes:
        recipe: The whole recipe.
        scorer: The model; stages train it one after another.
        tokenizer: Its tokenizer.
        makers: Makes each task's rows.
        dev: Rows to choose the weights by, or ``None``.
        precision: Of the forward passes.
        device: ``"cpu"``, ``"cuda"`` or ``"mps"``.
        callbacks: Trainer callbacks for every stage, by the stage's name.
    """

    recipe: Recipe
    scorer: OptionScorer
    tokenizer: Any
    makers: Mapping[str, RowMaker]
    dev: DevRows | None
    precision: Precision
    device: str
    callbacks: Mapping[str, list[TrainerCallback]]

    @property
    def rows(self) -> dict[str, int]:
        """Number of training rows of each task."""
        return {name: len(maker) for name, maker in self.makers.items()}


def finish_stage(bench: Bench, stage: Stage, folder: Path) -> dict[str, Any]:
    """Bring a stage to its end, from wherever it stands: done, begun or not begun. The scorer gets its weights.

    Returns:
        The stage's record: steps, rows and tokens seen, the curves, the dev results.
    """
    if (folder / RESULT).exists():
        bench.scorer.load_state_dict(load_file(folder / WEIGHTS))
        done: dict[str, Any] = json.loads((folder / RESULT).read_text(encoding="utf-8"))
        return done
    trainer = _trainer(bench, stage, folder)
    trainer.run(last_checkpoint(folder))
    record = _record(stage, trainer)
    write_weights(bench.scorer, folder / WEIGHTS)
    write_json(record, folder / RESULT)  # last: it says that the stage is done
    for path in (*folder.glob("checkpoint-*"), folder / BEST):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return record


def last_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint: Trainer writes ``trainer_state.json`` last, so one without it was cut short."""
    for path in sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True):
        try:
            json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        return path
    return None


def write_json(value: Any, path: Path) -> None:
    """Write JSON so that a kill leaves either the old file or the new one."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    os.replace(part, path)


def _trainer(bench: Bench, stage: Stage, folder: Path) -> StageTrainer:
    recipe = bench.recipe
    plan = plan_stage(recipe, stage, bench.rows)
    dev = bench.dev if stage.objective == "options" else None
    tokens = PairTokenizer(bench.tokenizer.backend_tokenizer, stage.max_tokens or recipe.max_tokens)
    collator = Collator(
        tokens,
        bench.tokenizer.pad_token_id,
        micro_options=recipe.micro_options,
        micro_tokens=recipe.micro_tokens,
        first_option_only=stage.objective == "first_token",
    )
    every = recipe.selection.every or (math.ceil(len(plan) / (stage.epochs or _EVALUATIONS)))
    return StageTrainer(
        bench.scorer,
        _objective(bench, stage),
        stage.optimizer or recipe.optimizer,
        bench.precision,
        dev,
        args=_arguments(bench, stage, folder, steps=len(plan), evaluate_every=every if dev else None),
        train_dataset=PlannedRows(plan, bench.makers, recipe.seed, stage.name),
        data_collator=collator,
        callbacks=bench.callbacks.get(stage.name, []),
    )


def _objective(bench: Bench, stage: Stage) -> Objective:
    if stage.objective == "options":
        return OptionsObjective()
    return FirstTokenObjective(load_encoder(bench.recipe.base, bench.precision, whole=True).eval().to(bench.device))


def _arguments(bench: Bench, stage: Stage, folder: Path, *, steps: int, evaluate_every: int | None) -> Any:
    recipe, optimizer = bench.recipe, stage.optimizer or bench.recipe.optimizer
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=1,  # one item is a whole step
        max_grad_norm=optimizer.clip,
        lr_scheduler_type="linear" if optimizer.decay == "linear" else "constant_with_warmup",
        warmup_steps=math.ceil(optimizer.warmup * steps),
        logging_steps=recipe.log_every,
        logging_nan_inf_filter=False,
        save_steps=recipe.save_every,
        save_total_limit=2,
        eval_strategy="steps" if evaluate_every else "no",
        eval_steps=evaluate_every,
        seed=recipe.seed,
        use_cpu=bench.device == "cpu",
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to="none",
    )
    # One process, one device: on several GPUs Trainer would wrap the model in DataParallel, which cuts up its batches.
    arguments._n_gpu = min(1, arguments.n_gpu)
    return arguments


def _record(stage: Stage, trainer: StageTrainer) -> dict[str, Any]:
    history = trainer.state.log_history
    measured = [entry for entry in history if "eval_error" in entry]
    best = min(measured, key=lambda entry: entry["eval_error"], default=None)
    last: dict[str, Any] = next((entry for entry in reversed(history) if "tokens" in entry), {})
    return {
        "stage": stage.name,
        "steps": trainer.state.global_step,
        "tokens": trainer.state.num_input_tokens_seen,
        "seconds": round(last.get("seconds", 0.0), 1),
        "kept_step": best["step"] if best else trainer.state.global_step,
        "dev": best and {"error": best["eval_error"], "tasks": best["eval_tasks"]},
        "curve": [entry for entry in history if "tokens" in entry or "eval_error" in entry],
    }
