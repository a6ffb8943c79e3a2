"""A Hugging Face repo at a revision, as a local folder; see :mod:`ko_decision_tools.checkpoints`.

``huggingface_hub`` and tenacity are imported where they are used: together they cost more than all the rest of a start.
"""

from __future__ import annotations

import glob
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ko_decision_tools.checkpoints.files import CONFIG_FILES, INDEX_SUFFIX, WEIGHTS_SUFFIX, require_files
from ko_decision_tools.errors import CheckpointError, CheckpointNotFoundError, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

# Everything a decision needs, in the repo's folder or below it (Laya keeps ``tokenizer/`` and ``encoder/config.json``).
ALLOWED_FILES = (
    *CONFIG_FILES,
    f"*{WEIGHTS_SUFFIX}",
    f"*{INDEX_SUFFIX}",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "*.spm",
    "calibration.json",
    "temperatures.json",
)
ATTEMPTS = 4

_PATIENCE = 10.0  # seconds a silent hub is given to answer
_LOGIN = "log in with `hf auth login` (or set HF_TOKEN)"
_LOG = logging.getLogger(__name__)

# By name, because the hub client's HTTP library is httpx in 1.x and httpx2 in 2.x; the class names are the same.
_NETWORK_ERRORS = frozenset({"TimeoutException", "NetworkError", "RemoteProtocolError", "ProxyError"})


@dataclass(frozen=True, slots=True)
class HubRepo:
    """A repo at a revision, and how to get it.

    Args:
        id: ``"org/repo"``.
        revision: Branch, tag or commit hash; ``None`` for the default branch.
        subfolder: Get this folder only; the snapshot still starts at the repo's root.
        cache_dir: ``None`` for the hub's own ``HF_HUB_CACHE``.
        endpoint: ``None`` for the hub's own ``HF_ENDPOINT``.
    """

    id: str
    revision: str | None = None
    subfolder: str | None = None
    cache_dir: Path | None = None
    endpoint: str | None = None

    def fetch(self, *, local_files_only: bool, sleep: Callable[[float], None]) -> Path:
        """The snapshot's folder, ``…/snapshots/<commit hash>``; ``sleep`` waits between attempts.

        Raises:
            CheckpointNotFoundError: No such repo, revision or subfolder; offline, it is not in the cache.
            CheckpointError: Refused, unreachable, or without safetensors weights.
        """
        from huggingface_hub import constants
        from huggingface_hub.errors import EntryNotFoundError, HTTPError  # type: ignore[attr-defined]
        from tenacity import Retrying, before_sleep_log, retry_if_exception, stop_after_attempt, wait_exponential_jitter

        attempts = Retrying(
            retry=retry_if_exception(_is_transient),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_exponential_jitter(initial=1, max=10),
            before_sleep=before_sleep_log(_LOG, logging.WARNING),
            sleep=sleep,
            reraise=True,
        )
        try:
            if local_files_only or constants.HF_HUB_OFFLINE:
                return self._snapshot(local_files_only=True)
            return attempts(self._newest)
        # ValueError: an answer that is not JSON (a captive portal). RuntimeError: how the Xet client reports a failure.
        except (HTTPError, EntryNotFoundError, OSError, ValueError, RuntimeError) as error:
            raise _explained(self, error) from error

    def _snapshot(self, *, local_files_only: bool) -> Path:
        from huggingface_hub import snapshot_download

        prefix = f"{glob.escape(self.subfolder)}/" if self.subfolder else ""
        path = snapshot_download(
            self.id,
            revision=self.revision,
            cache_dir=self.cache_dir,
            endpoint=self.endpoint,
            local_files_only=local_files_only,
            allow_patterns=[prefix + pattern for file in ALLOWED_FILES for pattern in (file, f"*/{file}")],
            # Weights further down belong to other checkpoints, reached by naming their subfolder.
            ignore_patterns=f"{prefix}*/*{WEIGHTS_SUFFIX}",
        )
        return Path(path).absolute()

    def _newest(self) -> Path:
        """One attempt to get what the hub has; a cached copy when the hub cannot be reached."""
        from huggingface_hub.errors import HTTPError, LocalEntryNotFoundError  # type: ignore[attr-defined]

        try:
            self._check_listing()
        except HTTPError as error:
            if not _is_transient(error):
                raise
            try:
                cached = self._snapshot(local_files_only=True)
            except LocalEntryNotFoundError:
                raise error from None
            _LOG.warning("%s: the hub cannot be reached (%s), using the cached copy", self.id, _one_line(error))
            return cached
        return self._snapshot(local_files_only=False)

    def _check_listing(self) -> None:
        """Refuse what cannot be used before any of it is downloaded.

        Also the only hub call that takes a timeout: ``snapshot_download`` alone waits for ever on a silent hub.
        """
        from huggingface_hub import HfApi

        info = HfApi(endpoint=self.endpoint).model_info(self.id, revision=self.revision, timeout=_PATIENCE)
        prefix = f"{self.subfolder}/" if self.subfolder else ""
        files = [file.rfilename for file in info.siblings or ()]
        names = {file.removeprefix(prefix) for file in files if file.startswith(prefix)}
        if self.subfolder and not names:
            raise CheckpointNotFoundError(f"{self.id} has no folder {shorten(self.subfolder)}: check subfolder.")
        require_files(self.id, {name for name in names if "/" not in name})


def _is_transient(error: BaseException) -> bool:
    """Whether trying again may help: connection errors, timeouts, 429 and 5xx. Never a 404, a 401/403 or a bad file."""
    cause = _cause(error)
    status = _status(cause)
    if status is not None:
        return status == 429 or status >= 500
    return any(kind.__name__ in _NETWORK_ERRORS for kind in type(cause).__mro__)


def _cause(error: BaseException) -> BaseException:
    """What went wrong: the hub reports a failed download as "not in the cache", caused by the failure."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    return error.__cause__ or error if isinstance(error, LocalEntryNotFoundError) else error


def _status(error: BaseException) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _explained(repo: HubRepo, error: Exception) -> CheckpointError:
    """A failed download as one sentence with the fix."""
    from huggingface_hub import errors as hub

    cause = _cause(error)
    status = _status(cause)
    what = f"{repo.id} at revision {shorten(repo.revision)}" if repo.revision else repo.id
    if isinstance(cause, hub.GatedRepoError):
        return CheckpointError(f"{repo.id} is gated: accept its terms on its page on the hub, then {_LOGIN}.")
    if isinstance(cause, hub.RevisionNotFoundError):
        return CheckpointNotFoundError(f"{repo.id} has no revision {shorten(repo.revision)}: check its spelling.")
    if isinstance(cause, hub.LocalEntryNotFoundError | hub.OfflineModeIsEnabled):
        return CheckpointNotFoundError(
            f"{what} is not, or not wholly, in the local cache and downloading is switched off: load it once without "
            "local_files_only and HF_HUB_OFFLINE, or give a local folder."
        )
    if isinstance(cause, hub.EntryNotFoundError):
        return CheckpointError(f"A file of {what} vanished while it was downloaded ({_one_line(cause)}): try again.")
    if isinstance(cause, hub.RepositoryNotFoundError) or status == 404:
        return CheckpointNotFoundError(
            f"There is neither a folder nor a Hugging Face repo {shorten(repo.id)}: check the spelling; if it is "
            f"private, {_LOGIN}; the bundled checkpoint is called 'mini'."
        )
    if status in (401, 403):
        return CheckpointError(f"The hub refuses access to {repo.id} (HTTP {status}): {_LOGIN} with a token that may.")
    problem = f"{what} could not be downloaded ({_one_line(cause)})"
    if _is_transient(cause):
        return CheckpointError(f"{problem} in {ATTEMPTS} attempts: check the connection, or give a local folder.")
    return CheckpointError(f"{problem}: check the disk and the proxy, or give a local folder.")


def _one_line(error: BaseException) -> str:
    """``ReadTimeout: timed out``: the type and the first line that says something."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
