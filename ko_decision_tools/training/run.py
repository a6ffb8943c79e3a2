"""A whole training run in a folder: stages one after another, then the export, the records and the model card.

::

    out/run.json      the recipe with every default, the rows' counts and fingerprint, device, versions
    out/base/         the encoder's config and tokenizer
    out/stages/…      see ko_decision_tools.training.stages
    out/checkpoint/   the exported checkpoint, its records.json and its README.md

A run that was killed goes on from its last checkpoint with ``resume``; it refuses another recipe or other rows.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import transformers
from transformers import TrainerCallback

from ko_decision_tools.encoders.pair import pick_device, set_threads
from ko_decision_tools.encoders.pair_tokens import PairTokenizer
from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.training.export import Dtype
from ko_decision_tools.training.model import Precision, load_base
from ko_decision_tools.training.publish import BASE, CHECKPOINT, RUN, publish, stage_folder
from ko_decision_tools.training.recipe import Recipe
from ko_decision_tools.training.rows import RowMaker
from ko_decision_tools.training.selection import DevRows
from ko_decision_tools.training.sources import Sources, load_sources
from ko_decision_tools.training.stages import Bench, finish_stage, write_json

Callbacks = Callable[[str], list[TrainerCallback]]


def train(
    recipe: Recipe,
    out: Path,
    *,
    data_dir: Path | None = None,
    resume: bool = False,
    device: str | None = None,
    threads: int | None = None,
    dtype: Dtype = "float16",
    callbacks: Callbacks | None = None,
) -> dict[str, Any]:
    """Train, export, and write the records.

    Args:
        recipe: What to do.
        out: The run's folder.
        data_dir: Folder with the suites' files; ``None`` for the hub's.
        resume: Go on with what is in ``out`` (or begin, if nothing is).
        device: ``"cpu"``, ``"cuda"`` or ``"mps"``; by default the best there is.
        threads: torch's threads; on a CPU one per physical core is best, and one where another job is running.
        dtype: Precision of the exported weights.
        callbacks: From a stage's name to Trainer callbacks, for progress.

    Returns:
        The records, as in ``checkpoint/records.json``.

    Raises:
        InvalidInputError: A source, the folder or the recipe cannot be used.
        CheckpointError: The base cannot be loaded, or the export fails its check.
        EncoderError: The loss stopped being finite.
    """
    if find_spec("accelerate") is None:
        raise InvalidInputError("accelerate", "is not installed", 'pip install "ko-decision-tools[lab]".')
    set_threads(threads)
    place = pick_device(device).type
    precision = Precision.choose(recipe.precision, place)
    sources = load_sources(recipe, data_dir)
    _open_run(out, recipe, sources, place, precision, resume=resume)
    bench = _bench(recipe, sources, place, precision, callbacks or (lambda stage: []))
    bench.scorer.encoder.config.save_pretrained(out / BASE)
    bench.tokenizer.save_pretrained(out / BASE)
    for stage in recipe.stages:
        finish_stage(bench, stage, stage_folder(out, recipe, stage))
    return publish(out, out / CHECKPOINT, bench.scorer, bench.tokenizer, dtype)


def _open_run(out: Path, recipe: Recipe, sources: Sources, device: str, precision: Precision, *, resume: bool) -> None:
    """Begin a run in an empty folder, or make sure that the one in it is this one.

    Raises:
        InvalidInputError: The folder has files and ``resume`` was not asked for, or holds another run.
    """
    file = out / RUN
    wanted = {"recipe": recipe.to_dict(), "rows": _counts(sources)}
    if file.exists() and resume:
        found = json.loads(file.read_text(encoding="utf-8"))
        if changed := _differences(wanted, found):
            fix = "Use the recipe and the rows it began with, or another folder."
            raise InvalidInputError(str(out), f"holds a run with another {', '.join(changed)}", fix)
        return
    if out.exists() and any(out.iterdir()):
        raise InvalidInputError(str(out), "is not empty", "Pass --resume to go on with its run, or another folder.")
    out.mkdir(parents=True, exist_ok=True)
    names = ("torch", "transformers", "accelerate", "tokenizers")
    versions = {"python": platform.python_version(), **{name: version(name) for name in names}}
    write_json({**wanted, "device": device, "precision": precision.name, "versions": versions}, file)


def _counts(sources: Sources) -> dict[str, Any]:
    counts = {part: {name: len(rows) for name, rows in getattr(sources, part).items()} for part in ("train", "dev")}
    return {"fingerprint": sources.fingerprint, **counts}


def _differences(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    mine, other = wanted["recipe"], found.get("recipe", {})
    changed = [key for key in mine if mine[key] != other.get(key)]
    return changed + (["set of rows"] if wanted["rows"] != found.get("rows") else [])


def _bench(recipe: Recipe, sources: Sources, device: str, precision: Precision, callbacks: Callbacks) -> Bench:
    transformers.set_seed(recipe.seed)
    scorer, tokenizer = load_base(recipe, precision)
    tokens = PairTokenizer(tokenizer.backend_tokenizer, recipe.max_tokens)
    return Bench(
        recipe=recipe,
        scorer=scorer.to(device),
        tokenizer=tokenizer,
        makers={name: RowMaker(name, recipe.tasks[name], rows) for name, rows in sources.train.items()},
        dev=DevRows(sources.dev, tokens, tokenizer.pad_token_id) if sources.dev else None,
        precision=precision,
        device=device,
        callbacks={stage.name: callbacks(stage.name) for stage in recipe.stages},
    )
