"""Other processes: a forked child says nothing, a spawned worker loads the model again from its settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor
from ko_decision_tools import Choice, KoDecisionModel, TemperatureTable

TEAM = Choice(instructions="어느 팀?", criteria={"결제": "환불", "배송": "지연"})

def main():
    table = TemperatureTable(by_type={"choice": 2.0})
    model = KoDecisionModel(model=sys.argv[1], calibration=table, num_threads=1)
    expected = model.decide("돈을 돌려주세요", TEAM).probabilities_in_order
    if sys.argv[2] == "fork":
        child = os.fork()
        if child == 0:
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        raise SystemExit(status)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        got = pool.submit(model.decide, "돈을 돌려주세요", TEAM).result().probabilities_in_order
    assert all(abs(a - b) < 1e-6 for a, b in zip(got, expected)), (got, expected)

if __name__ == "__main__":
    main()
"""


def run(folder: Path, how: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run([sys.executable, script, folder, how], capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


def test_forking_after_use_prints_no_warning(tiny_roberta: Path, tmp_path: Path) -> None:
    run(tiny_roberta, "fork", tmp_path)


def test_a_spawned_worker_gives_the_same_answer(tiny_roberta: Path, tmp_path: Path) -> None:
    run(tiny_roberta, "spawn", tmp_path)
