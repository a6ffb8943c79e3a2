"""``python -m ko_decision_tools.cli``: the same as ``ko-decision``."""

from ko_decision_tools.cli import app

app(prog_name="ko-decision")
