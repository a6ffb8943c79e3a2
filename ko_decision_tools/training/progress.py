"""Progress on stderr: a bar with loss, tokens per second and time left, or a line per log entry when it is a file."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from transformers import TrainerCallback


class ShowProgress(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
    """Shows one stage's progress.

    Args:
        stage: Its name.
        console: Where to; by default stderr.
    """

    def __init__(self, stage: str, console: Console | None = None) -> None:
        self._stage = stage
        self._console = console or Console(stderr=True, highlight=False)
        self._bar: Progress | None = None
        self._started, self._first_step = 0.0, 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock at the step that this session starts from."""
        self._started, self._first_step = time.monotonic(), state.global_step
        if self._console.is_terminal:
            words = TextColumn("{task.description} {task.fields[note]}")
            self._bar = Progress(words, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=self._console)
            self._bar.add_task(self._stage, total=state.max_steps, completed=state.global_step, note="")
            self._bar.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Show the loss, or a dev result."""
        note = describe(logs or {})
        if not note:
            return
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], note=note)
        else:
            left = self._seconds_left(state.global_step, state.max_steps)
            self._console.print(f"{self._stage} {state.global_step}/{state.max_steps}  {note}  {clock(left)} left")

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Leave the finished bar on the screen."""
        if self._bar is not None:
            self._bar.stop()

    def _seconds_left(self, step: int, steps: int) -> float:
        done = max(1, step - self._first_step)
        return (time.monotonic() - self._started) / done * (steps - step)


def describe(logs: dict[str, Any]) -> str:
    """The few numbers of a log entry that are worth watching.

    Example:
        >>> describe({"loss": 0.7134, "tokens_per_second": 812.3, "learning_rate": 1e-5})
        'loss 0.713  812 tokens/s'
        >>> describe({"eval_error": 0.21})
        'dev error 0.2100'
    """
    if "eval_error" in logs:
        return f"dev error {logs['eval_error']:.4f}"
    if "tokens_per_second" in logs:
        return f"loss {logs['loss']:.3f}  {logs['tokens_per_second']:.0f} tokens/s"
    return ""


def clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    Example:
        >>> clock(3725.4)
        '1:02:05'
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
