"""Names become checked folders; every way a checkpoint can be missing, refused or broken has its own sentence."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import huggingface_hub
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from ko_decision_tools import checkpoints
from ko_decision_tools.checkpoints import BUNDLED, Checkpoint, resolve_checkpoint
from ko_decision_tools.checkpoints import hub as hub_room
from ko_decision_tools.errors import CheckpointError, CheckpointNotFoundError, InvalidInputError, KoDecisionError
from tests.hub_stand_in import HubStandIn

if TYPE_CHECKING:
    from collections.abc import Iterator

REPO = "korean/decision"
MINI_V0 = Path(__file__).parents[2] / "shared" / "models" / "mini-v0"


def tensors(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "bert.embeddings.weight": rng.normal(size=(300, 16)).astype(np.float16),
        "bert.layer.0.bias": rng.normal(size=16).astype(np.float32),
        "classifier.weight": rng.normal(size=(1, 16)).astype(np.float32),
    }


CONFIG = json.dumps({"model_type": "bert", "num_labels": 1}).encode()
FILES = {
    "config.json": CONFIG,
    "model.safetensors": save(tensors()),
    "tokenizer.json": '{"한국어": true}'.encode(),
    "calibration.json": b'{"temperatures": {"klue_nli": 3.3}}',
}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStandIn]:
    """A hub with one good repo, asked online whatever the environment says, whose client never really sleeps."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for module in ("huggingface_hub.utils._http.time", "huggingface_hub.file_download.time"):
        monkeypatch.setattr(module, SimpleNamespace(sleep=lambda _: None))
    with HubStandIn() as stand_in:
        stand_in.add_repo(REPO, FILES)
        yield stand_in
        huggingface_hub.close_session()


class Resolver:
    """``resolve_checkpoint`` against the stand-in; keeps what it would have waited."""

    def __init__(self, hub: HubStandIn, cache: Path) -> None:
        self.hub, self.cache, self.waits = hub, cache, list[float]()

    def __call__(self, name: str = REPO, **options: Any) -> Checkpoint:
        return resolve_checkpoint(
            name, cache_dir=self.cache, endpoint=self.hub.url, **{"sleep": self.waits.append, **options}
        )


@pytest.fixture
def resolve(hub: HubStandIn, tmp_path: Path) -> Resolver:
    return Resolver(hub, tmp_path / "cache")


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_folder_is_used_as_it_is(tmp_path: Path) -> None:
    folder = write(tmp_path / "내 모델", FILES)
    found = resolve_checkpoint(folder)
    assert (found.name, found.folder, found.revision) == (str(folder), folder, None)
    assert resolve_checkpoint(str(folder)) == found


def test_a_relative_folder_keeps_its_name_and_gets_an_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "org" / "model", FILES)
    monkeypatch.chdir(tmp_path)
    found = resolve_checkpoint("org/model")  # could be a repo id, but there is such a folder
    assert (found.name, found.folder) == ("org/model", tmp_path / "org" / "model")


def test_a_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "models", FILES)
    assert resolve_checkpoint("~/models").folder == tmp_path / "models"


def test_mini_is_the_bundled_folder_whatever_lies_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled = write(tmp_path / "site-packages" / "mini", FILES)
    monkeypatch.setattr(checkpoints, "_BUNDLED_FOLDER", bundled)
    write(tmp_path / "mini", FILES | {"config.json": b'{"other": 1}'})
    monkeypatch.chdir(tmp_path)
    assert resolve_checkpoint().folder == bundled
    assert resolve_checkpoint(BUNDLED).name == "mini"
    assert resolve_checkpoint("./mini").folder == tmp_path / "mini"


def test_without_its_bundled_folder_the_installation_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "_BUNDLED_FOLDER", tmp_path / "mini")
    with pytest.raises(CheckpointError, match="installation is broken"):
        resolve_checkpoint()


@pytest.mark.parametrize("name", ["./없음", "../missing", "/no/such", "~/no-such-folder", "a/b/c", "models\\mini", "."])
def test_what_looks_like_a_path_is_never_looked_up_on_the_hub(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: HubStandIn
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError) as caught:
        resolve_checkpoint(name, endpoint=hub.url)
    assert isinstance(caught.value, CheckpointNotFoundError) or name == "."  # "." is there, and is no checkpoint
    assert hub.requests == []


def test_a_path_object_is_never_a_repo(resolve: Resolver) -> None:
    with pytest.raises(CheckpointNotFoundError, match="There is no folder 'korean/decision'"):
        resolve(Path(REPO))  # type: ignore[arg-type]
    assert resolve.hub.requests == []


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    path = write(tmp_path, FILES) / "model.safetensors"
    with pytest.raises(CheckpointNotFoundError, match="is a file: give the folder"):
        resolve_checkpoint(path)


@pytest.mark.parametrize("name", ["한국/모델", "a--b/c", "org/", "x" * 200, "org/model\0", "org/\ud800", "repo.git"])
def test_a_name_that_can_be_neither_is_invalid_input(name: str, resolve: Resolver) -> None:
    with pytest.raises(InvalidInputError, match="neither a folder nor a hub repo id") as caught:
        resolve(name)
    assert caught.value.value == name
    assert resolve.hub.requests == []


@pytest.mark.parametrize("name", ["", "  ", None, 3, b"mini"])
def test_nothing_names_nothing(name: Any) -> None:
    with pytest.raises(InvalidInputError, match="names nothing"):
        resolve_checkpoint(name)


@given(name=st.text(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_any_odd_name_ends_in_one_documented_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(KoDecisionError) as caught:
        resolve_checkpoint(f"{name}?", local_files_only=True, cache_dir=tmp_path)
    assert len(str(caught.value).encode().splitlines()) == 1


def test_a_folder_has_no_revisions(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"revision is given, but .* is a local folder"):
        resolve_checkpoint(write(tmp_path, FILES), revision="main")


@pytest.mark.parametrize("subfolder", ["..", "a/../../b", "/etc", "", ".", "a\\..\\b", "a\0b"])
def test_a_subfolder_cannot_lead_out_of_the_checkpoint(subfolder: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="subfolder does not lie inside the checkpoint"):
        resolve_checkpoint(write(tmp_path, FILES), subfolder=subfolder)


def test_a_subfolder_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "multilingual", FILES)
    assert resolve_checkpoint(tmp_path, subfolder="multilingual/").folder == tmp_path / "multilingual"
    for missing in ("한국어", "x" * 400):
        with pytest.raises(CheckpointNotFoundError, match="has no folder"):
            resolve_checkpoint(tmp_path, subfolder=missing)


# --- files ------------------------------------------------------------------------------------------------------------


def without(name: str) -> dict[str, bytes]:
    return {file: data for file, data in FILES.items() if file != name}


@pytest.mark.parametrize("config", ["config.json", "model_config.json", "rl_agent_config.json"])
def test_each_family_has_its_configuration(config: str, tmp_path: Path) -> None:
    resolve_checkpoint(write(tmp_path, without("config.json") | {config: CONFIG}))


def test_a_missing_calibration_is_fine(tmp_path: Path) -> None:
    resolve_checkpoint(write(tmp_path, without("calibration.json")))


def test_a_configuration_that_asks_for_remote_code_is_fine_and_its_code_is_not_run(tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    config = json.dumps({"auto_map": {"AutoModel": "modeling.Model"}}).encode()
    code = f"open({str(trap)!r}, 'w')".encode()
    resolve_checkpoint(write(tmp_path / "model", FILES | {"config.json": config, "modeling.py": code}))
    assert not trap.exists()


WEIGHTS = FILES["model.safetensors"]
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 44247274\n"
DEEP = (200_000).to_bytes(8, "little") + b"[" * 200_000


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (without("config.json"), "holds no configuration"),
        (without("model.safetensors"), "holds no weights"),
        (FILES | {"config.json": b"{"}, r"config\.json is not valid JSON"),
        (FILES | {"config.json": b"[" * 100_000}, r"config\.json is not valid JSON"),
        (FILES | {"config.json": b"[1]"}, r"config\.json holds no JSON object"),
        (FILES | {"model.safetensors": WEIGHTS[:-1]}, r"model\.safetensors is damaged or cut short"),
        (FILES | {"model.safetensors": WEIGHTS[: len(WEIGHTS) // 2]}, r"model\.safetensors is damaged or cut short"),
        (FILES | {"model.safetensors": WEIGHTS + b"\0"}, r"model\.safetensors is damaged or cut short"),
        (FILES | {"model.safetensors": b"\xff" * 8 + WEIGHTS}, r"model\.safetensors is damaged or cut short"),
        (FILES | {"model.safetensors": DEEP}, r"model\.safetensors is damaged or cut short"),
        (FILES | {"model.safetensors": b""}, r"model\.safetensors is damaged or cut short"),
        (FILES | {"model.safetensors": save({})}, r"model\.safetensors holds no tensors"),
        (FILES | {"model.safetensors": LFS_POINTER}, r"model\.safetensors is a Git LFS pointer.*git lfs pull"),
        ({}, "holds no weights"),
    ],
)
def test_an_unusable_folder_is_refused_by_file(files: dict[str, bytes], problem: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=problem) as caught:
        resolve_checkpoint(write(tmp_path, files))
    assert str(tmp_path) in str(caught.value)


class Bomb:
    """Leaves a trace if anything unpickles it."""

    def __init__(self, trap: Path) -> None:
        self.trap = trap

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.trap), "w")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickle_weights_are_named_and_never_opened(name: str, tmp_path: Path) -> None:
    files = without("model.safetensors") | {name: pickle.dumps(Bomb(tmp_path / "ran"))}
    with pytest.raises(CheckpointError, match=f"weights in {name}: only safetensors is loaded"):
        resolve_checkpoint(write(tmp_path / "model", files))
    assert not (tmp_path / "ran").exists()


def test_pickles_beside_safetensors_do_not_matter(tmp_path: Path) -> None:
    resolve_checkpoint(write(tmp_path, FILES | {"pytorch_model.bin": b"x", "training_args.bin": b"x"}))


INDEX = "model.safetensors.index.json"


def sharded(**changes: bytes) -> dict[str, bytes]:
    names = [f"model-0000{part}-of-00002.safetensors" for part in (1, 2)]
    index = {"metadata": {}, "weight_map": {"a": names[0], "b": names[1], "c": names[1]}}
    shards = {name: save({"t": np.full(9, part)}) for part, name in enumerate(names)}
    return without("model.safetensors") | shards | {INDEX: json.dumps(index).encode()} | changes


def test_shards_are_found_through_their_index(tmp_path: Path) -> None:
    whole = resolve_checkpoint(write(tmp_path / "a", sharded()))
    other = sharded() | {"model-00002-of-00002.safetensors": save({"t": np.full(9, 7)})}
    assert resolve_checkpoint(write(tmp_path / "b", other)).fingerprint != whole.fingerprint


def test_a_missing_a_short_and_a_stray_shard(tmp_path: Path) -> None:
    second = "model-00002-of-00002.safetensors"
    missing = {name: data for name, data in sharded().items() if name != second}
    with pytest.raises(CheckpointError, match=f"lacks '{second}', which {INDEX} lists"):
        resolve_checkpoint(write(tmp_path / "missing", missing))
    with pytest.raises(CheckpointError, match=f"{second} is damaged or cut short"):
        resolve_checkpoint(write(tmp_path / "short", sharded() | {second: sharded()[second][:-3]}))
    resolve_checkpoint(write(tmp_path / "stray", sharded() | {"adapter.safetensors": b"not listed, not read"}))


@pytest.mark.parametrize("index", [b"{}", b'{"weight_map": []}', b'{"weight_map": {"a": 1}}', b'{"weight_map": {}}'])
def test_an_index_without_shards(index: bytes, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"index\.json lists no shards"):
        resolve_checkpoint(write(tmp_path, sharded() | {INDEX: index}))


def test_an_index_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    write(tmp_path, {"outside.safetensors": WEIGHTS})
    index = json.dumps({"weight_map": {"a": "../outside.safetensors"}}).encode()
    with pytest.raises(CheckpointError, match=r"lacks '\.\./outside\.safetensors'"):
        resolve_checkpoint(write(tmp_path / "model", sharded() | {INDEX: index}))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file(tmp_path: Path) -> None:
    (write(tmp_path, FILES) / "config.json").chmod(0)
    with pytest.raises(CheckpointError, match="cannot be read"):
        resolve_checkpoint(tmp_path)


# --- fingerprint ------------------------------------------------------------------------------------------------------


def fingerprint(folder: Path, files: dict[str, bytes]) -> str:
    return resolve_checkpoint(write(folder, files)).fingerprint


@pytest.mark.parametrize("changed", sorted(tensors()))
def test_training_any_one_tensor_changes_the_fingerprint(changed: str, tmp_path: Path) -> None:
    trained = tensors() | {changed: tensors(seed=1)[changed]}
    before = fingerprint(tmp_path / "before", FILES)
    assert fingerprint(tmp_path / "after", FILES | {"model.safetensors": save(trained)}) != before


def test_the_fingerprint_follows_configuration_and_weights_and_nothing_else(tmp_path: Path) -> None:
    before = fingerprint(tmp_path / "a", FILES)
    assert fingerprint(tmp_path / "b", FILES | {"config.json": CONFIG + b" "}) != before
    assert fingerprint(tmp_path / "c", FILES | {"calibration.json": b"{}", "README.md": b"x"}) == before
    assert len(before) == 16
    assert int(before, 16) >= 0


@pytest.mark.shared
@pytest.mark.skipif(not MINI_V0.is_dir(), reason="needs ../shared/models/mini-v0")
def test_a_real_checkpoint_passes(tmp_path: Path) -> None:
    found = resolve_checkpoint(MINI_V0)
    assert (found.folder, found.revision) == (MINI_V0.absolute(), None)
    half = tmp_path / "half"
    write(half, {"config.json": (MINI_V0 / "config.json").read_bytes()})
    with (MINI_V0 / "model.safetensors").open("rb") as file:
        (half / "model.safetensors").write_bytes(file.read(1_000_000))
    with pytest.raises(CheckpointError, match="damaged or cut short"):
        resolve_checkpoint(half)


# --- the hub ----------------------------------------------------------------------------------------------------------


def test_a_repo_is_downloaded_and_its_revision_is_the_commit(resolve: Resolver, tmp_path: Path) -> None:
    found = resolve()
    assert (found.name, found.revision) == (REPO, resolve.hub.repos[REPO].commit)
    assert {path.name: path.read_bytes() for path in found.folder.iterdir()} == FILES
    assert found.fingerprint == resolve_checkpoint(write(tmp_path / "same", FILES)).fingerprint
    assert resolve.waits == []


def test_only_the_files_a_decision_needs_are_downloaded(resolve: Resolver) -> None:
    wanted = FILES | {"encoder/config.json": b"{}", "tokenizer/tokenizer.json": b"{}", "tokenizer/spm.spm": b"s"}
    names = (
        "pytorch_model.bin",
        "model.pt",
        "modeling.py",
        "weights.pkl",
        "README.md",
        "onnx/model.onnx",
        "multilingual/model.safetensors",
        "tokenizer/evil.py",
    )
    unwanted = dict.fromkeys(names, b"unwanted")
    resolve.hub.add_repo(REPO, wanted | unwanted)
    folder = resolve().folder
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == set(wanted)
    assert not any(resolve.hub.count(name) for name in unwanted)


def test_of_a_subfolder_nothing_else_is_downloaded(resolve: Resolver) -> None:
    inside = {f"typed-[v1]/{name}": data for name, data in FILES.items()}
    resolve.hub.add_repo(REPO, FILES | inside | {"typed-v/model.safetensors": b"x"})
    found = resolve(subfolder="typed-[v1]")
    assert found.folder.name == "typed-[v1]"
    assert found.revision == resolve.hub.repos[REPO].commit == found.folder.parent.name
    assert {path.name for path in found.folder.parent.iterdir()} == {"typed-[v1]"}
    with pytest.raises(CheckpointNotFoundError, match="has no folder 'typed'"):
        resolve(subfolder="typed")


def test_a_pinned_revision_stays_when_the_branch_moves_on(resolve: Resolver) -> None:
    first = resolve()
    resolve.hub.add_repo(REPO, FILES | {"config.json": b'{"new": 1}'})
    assert resolve().revision != first.revision
    with pytest.raises(CheckpointNotFoundError, match="has no revision 'v2'"):
        resolve(revision="v2")
    assert resolve(revision=first.revision, local_files_only=True) == first


def test_a_repo_with_pickle_weights_only_is_refused_before_anything_is_downloaded(resolve: Resolver) -> None:
    resolve.hub.add_repo(REPO, without("model.safetensors") | {"pytorch_model.bin": b"pickle"})
    with pytest.raises(CheckpointError, match=r"weights in pytorch_model\.bin: only safetensors"):
        resolve()
    assert resolve.hub.count("/resolve/") == 0


def test_a_damaged_file_on_the_hub_is_not_tried_again(resolve: Resolver) -> None:
    resolve.hub.add_repo(REPO, FILES | {"model.safetensors": WEIGHTS[:-5]})
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged or cut short"):
        resolve()
    assert resolve.waits == []


def test_a_missing_repo_is_one_sentence_with_the_fix_and_no_second_try(resolve: Resolver) -> None:
    with pytest.raises(CheckpointNotFoundError) as caught:
        resolve("korean/decison")
    message = str(caught.value)
    assert "neither a folder nor a Hugging Face repo 'korean/decison'" in message
    assert "check the spelling" in message
    assert "\n" not in message
    assert (len(resolve.hub.requests), resolve.waits) == (1, [])


def test_a_gated_repo_says_how_to_log_in(resolve: Resolver) -> None:
    resolve.hub.add_repo(REPO, FILES, gated=True)
    with pytest.raises(CheckpointError, match=r"is gated: accept its terms .* `hf auth login`"):
        resolve()
    assert resolve.waits == []


@pytest.mark.parametrize("on", ["/api/", "/resolve/"])
@pytest.mark.parametrize("status", [401, 403])
def test_refused_access_says_how_to_log_in(status: int, on: str, resolve: Resolver) -> None:
    resolve.hub.fail(status, on=on)
    with pytest.raises(CheckpointError, match="hf auth login"):
        resolve()
    assert resolve.waits == []


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_failing_hub_is_asked_again(status: int, resolve: Resolver) -> None:
    resolve.hub.fail(status, times=3)
    assert resolve().revision == resolve.hub.repos[REPO].commit
    assert len(resolve.waits) == 3
    assert all(0 < wait <= 10 for wait in resolve.waits)


def test_a_hub_that_keeps_failing_is_asked_four_times(resolve: Resolver) -> None:
    resolve.hub.fail(500)
    with pytest.raises(CheckpointError, match=r"could not be downloaded .*500.* in 4 attempts: check the connection"):
        resolve()
    assert (len(resolve.hub.requests), len(resolve.waits)) == (4, 3)


def test_a_file_that_fails_for_a_while(resolve: Resolver) -> None:
    resolve.hub.fail(503, times=9, on="model.safetensors")  # longer than the hub client itself keeps trying
    assert resolve().revision
    assert 1 <= len(resolve.waits) <= 3


def test_half_an_answer_is_asked_for_again(resolve: Resolver) -> None:
    resolve.hub.cut(times=2, on="/api/")
    resolve.hub.cut(times=1, on="model.safetensors")
    assert (resolve().folder / "model.safetensors").read_bytes() == WEIGHTS
    assert len(resolve.waits) == 2


def test_a_silent_hub_does_not_hang_us(resolve: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_room, "_PATIENCE", 0.05)
    resolve.hub.hang(on="/api/")
    with pytest.raises(CheckpointError, match=r"Timeout.* in 4 attempts"):
        resolve()
    assert len(resolve.waits) == 3


def test_nobody_listening(resolve: Resolver) -> None:
    resolve.hub.close()
    with pytest.raises(CheckpointError, match=r"ConnectError.* in 4 attempts"):
        resolve()
    assert len(resolve.waits) == 3


def test_a_captive_portal_is_not_a_hub(resolve: Resolver) -> None:
    resolve.hub.answer(b"<html>log in to the guest network</html>")
    with pytest.raises(CheckpointError, match=r"could not be downloaded .* proxy"):
        resolve()
    assert resolve.waits == []


def test_a_cached_copy_outlives_the_hub(resolve: Resolver, caplog: pytest.LogCaptureFixture) -> None:
    found = resolve()
    resolve.hub.fail(503)
    assert resolve() == found
    assert resolve.waits == []
    assert "using the cached copy" in caplog.text


@pytest.mark.parametrize("how", ["local_files_only", "HF_HUB_OFFLINE"])
@pytest.mark.parametrize("calibrated", [True, False])
def test_offline_no_request_is_made(
    how: str, calibrated: bool, resolve: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve.hub.add_repo(REPO, FILES if calibrated else without("calibration.json"))
    found = resolve()
    resolve.hub.requests.clear()
    if how == "HF_HUB_OFFLINE":
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert resolve(local_files_only=how == "local_files_only") == found
    assert (found.folder / "calibration.json").exists() == calibrated
    assert resolve.hub.requests == []


def test_offline_a_repo_that_is_not_cached_says_what_to_do(resolve: Resolver) -> None:
    with pytest.raises(CheckpointNotFoundError, match="load it once without local_files_only"):
        resolve(local_files_only=True)
    with pytest.raises(CheckpointNotFoundError, match="at revision 'v1' is not, or not wholly, in the local cache"):
        resolve(local_files_only=True, revision="v1")
    assert resolve.hub.requests == []


def test_offline_half_a_copy_is_not_a_copy(resolve: Resolver) -> None:
    (resolve().folder / "tokenizer.json").unlink()
    with pytest.raises(CheckpointNotFoundError, match="not wholly"):
        resolve(local_files_only=True)


def test_offline_by_environment_in_a_fresh_process(resolve: Resolver) -> None:
    found = resolve()
    resolve.hub.requests.clear()
    code = (
        "import sys; from pathlib import Path; from ko_decision_tools.checkpoints import resolve_checkpoint as r\n"
        "print(r(sys.argv[1], cache_dir=Path(sys.argv[2]), endpoint=sys.argv[3]).fingerprint)\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", code, REPO, str(resolve.cache), resolve.hub.url]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [found.fingerprint, "[]"]
    assert resolve.hub.requests == []


def test_a_cache_that_cannot_be_written(resolve: Resolver) -> None:
    resolve.cache.write_text("a file where the cache should be")
    with pytest.raises(CheckpointError, match=r"could not be downloaded .* check the disk"):
        resolve()
    assert resolve.waits == []


def test_sixteen_threads_get_the_same_checkpoint(resolve: Resolver) -> None:
    barrier = threading.Barrier(16)

    def load(_: int) -> Checkpoint:
        barrier.wait()
        return resolve()

    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(load, range(16)))) == 1


def test_nothing_is_printed_to_stdout(resolve: Resolver, capfd: pytest.CaptureFixture[str]) -> None:
    resolve()
    assert capfd.readouterr().out == ""


def test_importing_the_room_imports_neither_the_hub_nor_tenacity() -> None:
    code = (
        "import sys, ko_decision_tools.checkpoints\n"
        "print(sorted({'huggingface_hub', 'tenacity', 'safetensors', 'torch', 'transformers'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
