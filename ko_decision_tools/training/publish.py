"""What comes out of a run: the exported checkpoint with its records and its model card, made from the run's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from ko_decision_tools.errors import CheckpointNotFoundError
from ko_decision_tools.training.card import write_model_card
from ko_decision_tools.training.export import Dtype, export_checkpoint
from ko_decision_tools.training.model import OptionScorer, Precision, empty_scorer
from ko_decision_tools.training.recipe import Recipe, Stage
from ko_decision_tools.training.stages import RESULT, WEIGHTS, last_checkpoint, write_json

RUN, BASE, CHECKPOINT, RECORDS = "run.json", "base", "checkpoint", "records.json"

_CHOSEN_ON = {
    "dev": "dev rows, also used to choose the weights",
    "holdout": "rows set aside, also used to choose the weights",
}


def stage_folder(out: Path, recipe: Recipe, stage: Stage) -> Path:
    """Where a stage of a run lives."""
    return out / "stages" / f"{recipe.stages.index(stage) + 1}-{stage.name}"


def publish(out: Path, folder: Path, scorer: OptionScorer, tokenizer: Any, dtype: Dtype) -> dict[str, Any]:
    """Export a run's scorer into ``folder``, with ``records.json`` and ``README.md``.

    Args:
        out: The run's folder.
        folder: Where the checkpoint goes.
        scorer: With the weights to export.
        tokenizer: Its tokenizer.
        dtype: Precision on disk.

    Returns:
        The records: ``run.json``, the finished stages and the export's report.

    Raises:
        CheckpointError: The export fails its check.
    """
    head = scorer.head
    report = export_checkpoint(scorer.encoder, head.weight, head.bias, tokenizer, folder, dtype=dtype)
    results = sorted((out / "stages").glob(f"*/{RESULT}"), key=lambda path: int(path.parent.name.partition("-")[0]))
    records = {
        **_read(out / RUN),
        "stages": [_read(path) for path in results],
        "export": {**report.to_dict(), "folder": folder.name},
    }
    write_json(records, folder / RECORDS)
    write_model_card(folder, card_records(records))
    return records


def export_run(out: Path, folder: Path, *, dtype: Dtype = "float16") -> dict[str, Any]:
    """Export what a run has so far: its newest stage's weights, finished or not.

    Raises:
        CheckpointNotFoundError: ``out`` is no run, or has no weights yet.
        CheckpointError: The export fails its check.
    """
    weights = _newest_weights(out)
    scorer = empty_scorer(out / BASE, Precision(torch.float32, float32_attention=False))
    scorer.load_state_dict(load_file(weights))
    return publish(out, folder, scorer, AutoTokenizer.from_pretrained(out / BASE), dtype)


def card_records(records: Mapping[str, Any]) -> dict[str, Any]:
    """What the model card says, out of a run's records."""
    recipe = records["recipe"]
    base = {key: recipe["base"][key] for key in ("model", "revision", "layers", "licence")}
    if Path(base["model"]).is_dir():  # a reader of the card has no use for the path on this machine
        base["model"] = Path(base["model"]).resolve().name
    return {
        "name": recipe["name"],
        "base": base,
        "data": _card_data(recipe["tasks"], records["rows"]["train"]),
        "results": _card_results(records),
        "training": _card_training(records),
        **{key: recipe[key] for key in ("licence", "limits", "notes")},
        "export": records["export"],
    }


def _card_data(tasks: Mapping[str, Any], rows: Mapping[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "task": name,
            "source": f"suite {task['suite']}, train" if task["suite"] else f"file {Path(task['file']).name}",
            "rows": rows[name],
            "licence": task["licence"],
        }
        for name, task in tasks.items()
        if name in rows
    ]


def _card_results(records: Mapping[str, Any]) -> list[dict[str, Any]]:
    none: dict[str, Any] = {"tasks": {}}
    dev = next((stage["dev"] for stage in reversed(records["stages"]) if stage["dev"]), none)
    on = _CHOSEN_ON.get(records["recipe"]["selection"]["source"])
    shown = ("metric", "value", "rows", "baseline")
    return [{"task": task, "on": on, **{key: result[key] for key in shown}} for task, result in dev["tasks"].items()]


def _card_training(records: Mapping[str, Any]) -> dict[str, str | int | float]:
    stages = records["stages"]
    told = [f"{stage['stage']} ({stage['steps']} steps, those of step {stage['kept_step']} kept)" for stage in stages]
    return {
        "stages": ", ".join(told) or "none finished",
        "tokens seen": sum(stage["tokens"] for stage in stages),
        "minutes": round(sum(stage["seconds"] for stage in stages) / 60, 1),
        "seed": records["recipe"]["seed"],
        "device": f"{records['device']}, {records['precision']}",
    }


def _newest_weights(out: Path) -> Path:
    stages = sorted((out / "stages").glob("*-*"), key=lambda path: int(path.name.partition("-")[0]), reverse=True)
    for stage in stages:
        checkpoint = last_checkpoint(stage)
        places = [stage / WEIGHTS, *([checkpoint / "model.safetensors"] if checkpoint else [])]
        if found := next((place for place in places if place.exists()), None):
            return found
    raise CheckpointNotFoundError(f"{out} holds no weights of a run: train first, or name the folder of --out.")


def _read(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value
