"""From a name to a checked local folder: the bundled checkpoint, a folder, or a Hugging Face repo at a revision.

Nothing is loaded here. What comes back is a folder that is known to hold a configuration and whole safetensors
weights, so that whoever loads it never meets half a file, a pickle, or a Git LFS pointer. Code that a repo may bring
along (``auto_map``) is neither downloaded nor run. What cannot be used is a
:class:`~ko_decision_tools.errors.CheckpointError` that names the file and the way out.

Of a repo only the files a decision needs are downloaded. The hub is asked with a timeout and asked again (four times
in all) when the network fails; if it cannot be reached and a whole copy is cached, that copy is used and a warning
logged. Offline (``local_files_only``, ``HF_HUB_OFFLINE``) no request is made at all.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ko_decision_tools.checkpoints.files import inspect_folder
from ko_decision_tools.checkpoints.hub import HubRepo
from ko_decision_tools.errors import CheckpointError, CheckpointNotFoundError, InvalidInputError, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

BUNDLED = "mini"

_BUNDLED_FOLDER = Path(__file__).parents[1] / BUNDLED


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checked folder with the files of one checkpoint.

    Attributes:
        name: ``"mini"``, the folder as it was given, or the hub repo id.
        folder: Absolute path of the local folder that holds the files (the subfolder, if one was asked for).
        revision: Commit hash of the hub snapshot; ``None`` for a local folder.
        fingerprint: 16 hex digits that change when the configuration or the weights change: SHA-256 over the
            configuration, each weight file's size and header, and the middle 256 bytes of every tensor. Made to notice
            that a calibration was fitted for other weights, in under 5 ms; it is not a security hash.
    """

    name: str
    folder: Path
    revision: str | None
    fingerprint: str


def resolve_checkpoint(
    name: str | os.PathLike[str] = BUNDLED,
    *,
    revision: str | None = None,
    subfolder: str | None = None,
    local_files_only: bool = False,
    cache_dir: Path | None = None,
    endpoint: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Checkpoint:
    """Find a checkpoint, download it if it lives on the hub, and check its files. Safe to call from several threads.

    Args:
        name: ``"mini"`` (bundled), an existing folder, or a hub repo such as ``"org/repo"``. A folder in the working
            directory wins over a repo of the same name; write ``"./mini"`` for a folder that is called mini.
        revision: Branch, tag or commit hash of a hub repo. Pin a hash to always get the same weights.
        subfolder: Use this folder inside the checkpoint; of a hub repo nothing else is downloaded.
        local_files_only: Use what is cached and make no request, as under ``HF_HUB_OFFLINE=1``.
        cache_dir: Hub cache to use instead of ``HF_HUB_CACHE``.
        endpoint: Hub to ask instead of ``HF_ENDPOINT``.
        sleep: Called with the seconds to wait before trying again after a network error.

    Raises:
        InvalidInputError: ``name`` can be neither a folder nor a repo id, or ``revision`` or ``subfolder`` is unusable.
        CheckpointNotFoundError: No such folder, repo or revision; offline, it is not in the cache.
        CheckpointError: The hub refuses it or cannot be reached, or files are missing, damaged or pickles.

    Example:
        >>> resolve_checkpoint("./no-such-folder")
        Traceback (most recent call last):
        ...
        ko_decision_tools.errors.CheckpointNotFoundError: There is no folder './no-such-folder': check the path, or \
write a Hugging Face repo as 'org/repo'.
    """
    shown, inside = _as_text(name), _checked_subfolder(subfolder)
    folder, commit = _local_folder(name, shown), None
    if folder is None:
        repo = HubRepo(_checked_repo_id(shown), revision, inside, cache_dir, endpoint)
        folder = repo.fetch(local_files_only=local_files_only, sleep=sleep)
        commit = folder.name
    elif revision is not None:
        problem = f"is given, but {shorten(shown)} is a local folder and has none"
        raise InvalidInputError("revision", problem, "Leave it out, or name a hub repo.", value=revision)
    folder = folder / (inside or "")
    if not os.path.isdir(folder):  # unlike Path.is_dir, False for a name that no file system takes
        raise CheckpointNotFoundError(f"{shown} has no folder {shorten(inside)}: check subfolder.")
    return Checkpoint(shown, folder, commit, inspect_folder(folder))


def _as_text(name: object) -> str:
    if isinstance(name, str | os.PathLike):
        text = os.fsdecode(name)
        if text.strip():
            return text
    fix = "Write 'mini', the path of a folder, or 'org/repo'."
    raise InvalidInputError("checkpoint", "names nothing", fix, value=name)


def _checked_subfolder(subfolder: str | None) -> str | None:
    if subfolder is None:
        return None
    path = PurePosixPath(subfolder)
    # It is joined to a folder of somebody else's making: it must not lead out of it.
    if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in subfolder or "\0" in subfolder:
        fix = "Write it relative to the checkpoint, such as 'multilingual'."
        raise InvalidInputError("subfolder", "does not lie inside the checkpoint", fix, value=subfolder)
    return str(path)


def _local_folder(name: object, shown: str) -> Path | None:
    """The folder that is meant, or ``None`` when a hub repo is."""
    if name == BUNDLED:
        if not _BUNDLED_FOLDER.is_dir():
            raise CheckpointError(
                f"The bundled checkpoint is missing from {_BUNDLED_FOLDER}: the installation is broken, reinstall it."
            )
        return _BUNDLED_FOLDER
    path = os.path.expanduser(shown)
    if os.path.isdir(path):
        return Path(path).absolute()
    if os.path.isfile(path):
        raise CheckpointNotFoundError(f"{shorten(shown)} is a file: give the folder that holds it.")
    like_a_path = shown.startswith((".", "/", "~")) or shown.count("/") > 1 or "\\" in shown or os.path.isabs(shown)
    if like_a_path or isinstance(name, os.PathLike):
        raise CheckpointNotFoundError(
            f"There is no folder {shorten(shown)}: check the path, or write a Hugging Face repo as 'org/repo'."
        )
    return None


def _checked_repo_id(text: str) -> str:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(text)
    except HFValidationError as error:
        fix = "Write 'mini', the path of a folder that exists, or 'org/repo'."
        raise InvalidInputError("checkpoint", "is neither a folder nor a hub repo id", fix, value=text) from error
    return text
