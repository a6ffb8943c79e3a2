"""One stage on transformers' Trainer: its checkpoints, its schedule and its resuming; our steps, groups and selection.

One item of the data set is the rows of one optimiser step, so Trainer's step counter is the whole position in the data:
a resumed run skips that many items, restores the generators, and goes on to the same weights.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.utils.data import SequentialSampler
from transformers import PrinterCallback, Trainer

from ko_decision_tools.errors import EncoderError
from ko_decision_tools.training.collator import StepBatch
from ko_decision_tools.training.model import OptionScorer, Precision
from ko_decision_tools.training.objectives import Objective
from ko_decision_tools.training.recipe import Optimizer
from ko_decision_tools.training.selection import DevRows, mean_error

BEST = "best.safetensors"


class StageTrainer(Trainer):  # type: ignore[misc]  # transformers is untyped here
    """Trains a scorer on planned steps.

    Args:
        scorer: The model, on the CPU; Trainer moves it.
        objective: The loss of a micro-batch's rows.
        optimizer: Rates, decay and groups.
        precision: Of the forward passes.
        dev: Rows to choose the weights by, or ``None`` to keep the last.
        **trainer: What ``Trainer`` takes: args, train_dataset, data_collator, callbacks.
    """

    control: Any

    def __init__(
        self,
        scorer: OptionScorer,
        objective: Objective,
        optimizer: Optimizer,
        precision: Precision,
        dev: DevRows | None,
        **trainer: Any,
    ) -> None:
        super().__init__(model=scorer, eval_dataset=dev, **trainer)
        self.remove_callback(PrinterCallback)  # it prints to stdout
        self._scorer, self._objective, self._recipe, self._precision = scorer, objective, optimizer, precision
        self._dev = dev
        self._watched: dict[str, list[float]] = {}
        self._clock: tuple[float, int, float] | None = None

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """AdamW in two groups; frozen weights are in neither."""
        groups = [
            {"params": [p for p in part.parameters() if p.requires_grad], "lr": rate}
            for part, rate in (
                (self._scorer.encoder, self._recipe.encoder_lr),
                (self._scorer.head, self._recipe.head_lr),
            )
        ]
        self.optimizer = torch.optim.AdamW(
            groups,
            betas=self._recipe.betas,
            weight_decay=self._recipe.weight_decay,
            fused=self.args.device.type in ("cpu", "cuda"),
        )
        return self.optimizer

    def training_step(self, model: Any, inputs: StepBatch, num_items_in_batch: Any = None) -> Tensor:
        """Forward and backward over the step's micro-batches; the mean loss of its rows.

        Raises:
            EncoderError: The loss is not finite.
        """
        self._clock = self._clock or self._started()
        model.train()
        moved: StepBatch = self._prepare_inputs(inputs)
        total = torch.zeros((), device=self.args.device)
        for micro in moved["micro"]:
            with self._precision.autocast(self.args.device.type):
                rows = self._objective(self._scorer, micro)
            loss = rows.loss.sum() / moved["rows"]
            self.accelerator.backward(loss)
            total += loss.detach()
            self._watch(micro["tasks"], rows.loss.tolist(), rows.right.tolist(), rows.spread.tolist())
        if not torch.isfinite(total):
            raise EncoderError(f"the loss became {float(total)} at step {self.state.global_step + 1}: lower the rates")
        self.state.num_input_tokens_seen += moved["tokens"]
        return total

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, Any]:
        """Measure the dev rows; write the weights if no earlier measurement of the stage was as good."""
        assert self._dev is not None  # Trainer evaluates only when asked to, and then there are dev rows
        results = self._dev.measure(self._score)
        metrics: dict[str, Any] = {"eval_error": mean_error(results)}
        best = min((entry["eval_error"] for entry in self._measured()), default=math.inf)
        if metrics["eval_error"] < best:
            write_weights(self._scorer, Path(self.args.output_dir) / BEST)
        self.log({**metrics, "eval_tasks": {task: asdict(result) for task, result in results.items()}})
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def log(self, logs: dict[str, Any], start_time: float | None = None) -> None:
        """Add what a training entry should say: tokens, speed, seconds so far, and each task's loss."""
        if "loss" in logs:
            logs |= self._speed()
            logs["tasks"] = {
                task: {"rows": int(n), "loss": loss / n, "right": right / n, "spread": spread / n}
                for task, (n, loss, right, spread) in sorted(self._watched.items())
            }
            self._watched = {}
        super().log(logs)

    def run(self, checkpoint: Path | None) -> None:
        """Train to the last step, from a checkpoint if there is one, and load the weights that are to be kept."""
        self.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        if self._dev is None:
            return
        if not any(entry["step"] == self.state.global_step for entry in self._measured()):
            self.evaluate()
        self._scorer.load_state_dict(load_file(Path(self.args.output_dir) / BEST))

    def _measured(self) -> list[dict[str, Any]]:
        return [entry for entry in self.state.log_history if "eval_error" in entry]

    def _get_train_sampler(self, train_dataset: Any = None) -> SequentialSampler:
        return SequentialSampler(self.train_dataset)

    def _score(self, ids: Tensor, mask: Tensor) -> Tensor:
        self._scorer.eval()
        device = self.args.device
        with torch.inference_mode(), self._precision.autocast(device.type):
            scores: Tensor = self._scorer(ids.to(device), mask.to(device))
        return scores

    def _watch(self, tasks: Sequence[str], *columns: Sequence[float]) -> None:
        for task, *values in zip(tasks, *columns, strict=True):
            entry = self._watched.setdefault(task, [0.0, 0.0, 0.0, 0.0])
            for place, value in enumerate((1.0, *values)):
                entry[place] += value

    def _started(self) -> tuple[float, int, float]:
        """Now, and the tokens and seconds of earlier sessions, which stand in the restored state."""
        seconds = next((entry["seconds"] for entry in reversed(self.state.log_history) if "seconds" in entry), 0.0)
        return time.monotonic(), self.state.num_input_tokens_seen, seconds

    def _speed(self) -> dict[str, float]:
        """Tokens so far, tokens per second since the last entry, and seconds over all sessions."""
        now, tokens = time.monotonic(), self.state.num_input_tokens_seen
        then, tokens_then, seconds = self._clock or self._started()
        elapsed = max(now - then, 1e-9)
        self._clock = (now, tokens, seconds + elapsed)
        return {"tokens": tokens, "tokens_per_second": (tokens - tokens_then) / elapsed, "seconds": seconds + elapsed}


def write_weights(scorer: OptionScorer, path: Path) -> None:
    """Write a scorer's weights so that a kill leaves either the old file or the new one."""
    part = path.with_suffix(".part")
    save_file({name: value.detach().cpu().contiguous() for name, value in scorer.state_dict().items()}, part)
    os.replace(part, path)
