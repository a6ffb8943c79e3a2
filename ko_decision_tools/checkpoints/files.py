"""What a checkpoint's folder must hold, checked without reading the weights; see :mod:`ko_decision_tools.checkpoints`.

Pure of network and of torch: file names, JSON, and the headers of safetensors files.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from ko_decision_tools.errors import CheckpointError, shorten

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

CONFIG_FILES = ("config.json", "model_config.json", "rl_agent_config.json")
WEIGHTS_FILE = "model.safetensors"
WEIGHTS_SUFFIX = ".safetensors"
INDEX_SUFFIX = ".safetensors.index.json"

_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_SAMPLE = 256  # bytes hashed from the middle of each tensor
_LFS_POINTER = b"version https://git-lfs"


def require_files(where: str, names: Collection[str]) -> None:
    """Refuse a folder without safetensors weights or without a configuration, going by its file names alone.

    Raises:
        CheckpointError: It names ``where`` and what is missing, or the pickle that is there instead.

    Example:
        >>> require_files("org/repo", {"config.json", "model.safetensors", "vocab.txt"})
        >>> require_files("org/repo", {"model.safetensors"})
        Traceback (most recent call last):
        ...
        ko_decision_tools.errors.CheckpointError: org/repo holds no configuration: a checkpoint needs one of \
config.json, model_config.json, rl_agent_config.json.
    """
    if not any(name.endswith(WEIGHTS_SUFFIX) for name in names):
        pickles = sorted(name for name in names if name.endswith(_PICKLES))
        if pickles:
            raise CheckpointError(
                f"{where} has its weights in {pickles[0]}: only safetensors is loaded, since a pickle can run code; "
                "convert it with `save_pretrained`, or ask its author to."
            )
        raise CheckpointError(f"{where} holds no weights: a checkpoint needs a *{WEIGHTS_SUFFIX} file.")
    if not any(name in names for name in CONFIG_FILES):
        raise CheckpointError(f"{where} holds no configuration: a checkpoint needs one of {', '.join(CONFIG_FILES)}.")


def inspect_folder(folder: Path) -> str:
    """Check the files of a checkpoint; its fingerprint, as :class:`~ko_decision_tools.checkpoints.Checkpoint` has it.

    Raises:
        CheckpointError: A file is missing, unreadable, damaged or cut short; it is named.
    """
    try:
        names = {path.name for path in folder.iterdir() if path.is_file()}
        require_files(str(folder), names)
        configs = [folder / name for name in CONFIG_FILES if name in names]
        for path in configs:
            _read_object(path)
        weights = _weight_files(folder, names)
        for path in weights:
            _check_weights(path)
        return _fingerprint(configs, weights)
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be read ({error}): check the folder and its permissions.") from error


def _read_object(path: Path) -> dict[str, Any]:
    try:
        raw = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not valid JSON ({error}): get the file again.") from error
    if not isinstance(raw, dict):
        raise CheckpointError(f"{path} holds no JSON object: get the file again.")
    return raw


def _weight_files(folder: Path, names: Collection[str]) -> list[Path]:
    """The files that are loaded: ``model.safetensors``, else the shards an index lists, else all there are."""
    if WEIGHTS_FILE in names:
        return [folder / WEIGHTS_FILE]
    index = next((name for name in sorted(names) if name.endswith(INDEX_SUFFIX)), None)
    if index is None:
        return [folder / name for name in sorted(names) if name.endswith(WEIGHTS_SUFFIX)]
    shards = _read_object(folder / index).get("weight_map")
    if not isinstance(shards, dict) or not shards or not all(isinstance(shard, str) for shard in shards.values()):
        raise CheckpointError(f"{folder / index} lists no shards: get the file again.")
    # A name that leads elsewhere ("../x") is not one of the folder's names either.
    missing = sorted({shard for shard in shards.values() if shard not in names})
    if missing:
        raise CheckpointError(f"{folder} lacks {shorten(missing[0])}, which {index} lists: download it again.")
    return [folder / shard for shard in sorted(set(shards.values()))]


def _check_weights(path: Path) -> None:
    """Let safetensors read the header: it insists that the tensors cover the file to its last byte, no more."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            empty = not file.keys()
    except SafetensorError as error:
        with path.open("rb") as file:
            pointer = file.read(len(_LFS_POINTER)) == _LFS_POINTER
        if pointer:
            raise CheckpointError(f"{path} is a Git LFS pointer, not weights: run `git lfs pull` there.") from error
        raise CheckpointError(f"{path} is damaged or cut short ({error}): delete it and get it again.") from error
    if empty:
        raise CheckpointError(f"{path} holds no tensors: get the file again.")


def _fingerprint(configs: list[Path], weights: list[Path]) -> str:
    """Every tensor is sampled, because training may have touched the head alone."""
    digest = hashlib.sha256()
    for path in configs:
        digest.update(path.read_bytes())
    for path in weights:
        with path.open("rb") as file:
            digest.update(path.stat().st_size.to_bytes(8, "little"))
            header = file.read(int.from_bytes(file.read(8), "little"))
            digest.update(header)
            body = file.tell()
            for tensor, info in json.loads(header).items():
                if tensor != "__metadata__":
                    start, end = info["data_offsets"]
                    sample = max(start, (start + end - _SAMPLE) // 2)
                    file.seek(body + sample)
                    digest.update(file.read(min(_SAMPLE, end - sample)))
    return digest.hexdigest()[:16]
