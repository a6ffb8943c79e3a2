"""LangChain's own standard suites, on the bundled checkpoint."""

from __future__ import annotations

from functools import cache
from typing import Any

from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from ko_decision_tools import ClassifyTool, GateTool, KoDecisionModel, RateTool


@cache
def bundled() -> KoDecisionModel:
    return KoDecisionModel()


class _Classify:
    @property
    def tool_constructor(self) -> type[BaseTool]:
        return ClassifyTool

    @property
    def tool_constructor_params(self) -> dict[str, Any]:
        return {"model": bundled()}

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {
            "text": "결제가 두 번 됐어요. 하나는 취소해 주세요.",
            "question": "이 문의를 어느 팀이 맡아야 하는가?",
            "options": ["결제: 결제, 환불, 영수증", "배송: 배송 지연과 주소 변경"],
        }


class _Gate(_Classify):
    @property
    def tool_constructor(self) -> type[BaseTool]:
        return GateTool

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"text": "고객 요청으로 회원 정보를 모두 삭제한다."}


class _Rate(_Classify):
    @property
    def tool_constructor(self) -> type[BaseTool]:
        return RateTool

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {
            "text": "지금 서버가 내려갔습니다.",
            "question": "이 문의는 얼마나 급한가?",
            "levels": ["급하지 않다", "오늘 안에 답해야 한다", "지금 답해야 한다"],
        }


class _PinnedClassify(_Classify):
    @property
    def tool_constructor_params(self) -> dict[str, Any]:
        return {"model": bundled(), "question": "어느 팀?", "options": {"결제": "결제와 환불", "배송": None}}

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"text": "택배가 아직 안 왔어요."}


class TestClassifyUnit(_Classify, ToolsUnitTests):
    """Unit suite."""


class TestClassifyIntegration(_Classify, ToolsIntegrationTests):
    """Integration suite."""


class TestGateUnit(_Gate, ToolsUnitTests):
    """Unit suite."""


class TestGateIntegration(_Gate, ToolsIntegrationTests):
    """Integration suite."""


class TestRateUnit(_Rate, ToolsUnitTests):
    """Unit suite."""


class TestRateIntegration(_Rate, ToolsIntegrationTests):
    """Integration suite."""


class TestPinnedClassifyUnit(_PinnedClassify, ToolsUnitTests):
    """Unit suite."""


class TestPinnedClassifyIntegration(_PinnedClassify, ToolsIntegrationTests):
    """Integration suite."""
