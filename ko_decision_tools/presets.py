"""The tasks the published checkpoints were trained on, in their own words, each with its temperature's name.

A preset pairs a question with a template for its state. Use one as it is; change a word and the fitted temperature no
longer applies.

Example:
    >>> KLUE_NLI.state(premise="비가 온다.", hypothesis="날이 맑다.")
    '전제: 비가 온다.\\n가설: 날이 맑다.'
    >>> KLUE_NLI.task
    'klue_nli'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ko_decision_tools.errors import InvalidInputError
from ko_decision_tools.questions import Choice, Noul, Question, Score


@dataclass(frozen=True, slots=True)
class Preset:
    """A trained task: its question, the template its state is built from, and its name in ``calibration.json``."""

    task: str
    question: Question
    template: str

    def state(self, **fields: str) -> str:
        """Fill the template.

        Raises:
            InvalidInputError: A field of the template is missing.
        """
        try:
            return self.template.format(**fields)
        except KeyError as error:
            raise InvalidInputError(
                str(error.args[0]), f"is missing for {self.task}", f"Pass it: {self.template!r}."
            ) from None


KLUE_NLI = Preset(
    "klue_nli",
    Choice(
        instructions="전제에 대해 가설이 갖는 논리적 관계를 판정하세요.",
        criteria={
            "entailment": "가설이 전제로부터 반드시 참이다 (함의)",
            "neutral": "가설이 전제로부터 참인지 거짓인지 알 수 없다 (중립)",
            "contradiction": "가설이 전제와 모순된다 (모순)",
        },
    ),
    "전제: {premise}\n가설: {hypothesis}",
)

KLUE_YNAT = Preset(
    "klue_ynat",
    Choice(
        instructions="뉴스 제목의 주제를 7개 후보 중에서 고르라.",
        criteria=dict.fromkeys(("IT과학", "경제", "사회", "생활문화", "세계", "스포츠", "정치")),
    ),
    "{title}",
)

KLUE_STS = Preset(
    "klue_sts",
    Score(
        instructions=(
            "두 문장의 의미 유사도를 0~5 척도로 판단하라. 핵심 내용은 사실·정보·요청·명령·감정이며, "
            "부차적 내용은 뉘앙스·공손함 등이다. 각 점수의 설명을 적용하라."
        ),
        criteria=[
            "의미와 주제가 모두 다르다.",
            "주제만 같고 핵심 내용과 부차적 내용은 다르다.",
            "핵심 내용은 다르고 일부 부차적 내용만 비슷하다.",
            "핵심 내용은 비슷하지만 부차적 내용에 무시할 수 없는 차이가 있다.",
            "의미가 거의 같고 일부 부차적 내용만 다르다.",
            "핵심 내용과 부차적 내용의 의미가 모두 같다.",
        ],
    ),
    "문장 1: {sentence1}\n문장 2: {sentence2}",
)

KOBEST_BOOLQ = Preset(
    "kobest_boolq",
    Noul(instructions="문맥을 근거로 판단할 내용이 참인가? 예 또는 아니오로 판단하라."),
    "문맥: {text}\n판단할 내용: {question}",
)

# The card does not publish its wording for the rest. SentiNeg is as `mini` was trained; WiC, RE and HellaSwag are ours.
KOBEST_SENTINEG = Preset("kobest_sentineg", Noul(instructions="문장에 나타난 감정이 긍정적인가?"), "{text}")

KOBEST_WIC = Preset(
    "kobest_wic",
    Noul(instructions="두 문장에서 대괄호로 표시한 낱말이 같은 뜻으로 쓰였는가?"),
    "낱말: {word}\n문장 1: {sentence1}\n문장 2: {sentence2}",
)

KLUE_RE = Preset(
    "klue_re",
    Choice(
        instructions="문장에서 주체와 대상이 갖는 관계를 고르라.",
        criteria={
            "no_relation": "주체와 대상은 다른 후보의 어떤 관계도 아니다",
            "org:dissolved": "대상은 조직이 해산된 날짜이다",
            "org:founded": "대상은 조직이 세워진 날짜이다",
            "org:place_of_headquarters": "대상은 조직의 본부가 있는 곳이다",
            "org:alternate_names": "대상은 조직의 다른 이름이다",
            "org:member_of": "대상은 조직이 속한 더 큰 조직이다",
            "org:members": "대상은 조직에 속한 구성 조직이다",
            "org:political/religious_affiliation": "대상은 조직이 따르는 정치 성향이나 종교이다",
            "org:product": "대상은 조직이 만든 제품이나 작품이다",
            "org:founded_by": "대상은 조직을 세운 사람이나 조직이다",
            "org:top_members/employees": "대상은 조직의 대표자나 구성원이다",
            "org:number_of_employees/members": "대상은 조직의 구성원 수이다",
            "per:date_of_birth": "대상은 인물이 태어난 날짜이다",
            "per:date_of_death": "대상은 인물이 죽은 날짜이다",
            "per:place_of_birth": "대상은 인물이 태어난 곳이다",
            "per:place_of_death": "대상은 인물이 죽은 곳이다",
            "per:place_of_residence": "대상은 인물이 사는 곳이다",
            "per:origin": "대상은 인물의 출신지나 국적이다",
            "per:employee_of": "대상은 인물이 일하는 조직이다",
            "per:schools_attended": "대상은 인물이 다닌 학교이다",
            "per:alternate_names": "대상은 인물의 다른 이름이다",
            "per:parents": "대상은 인물의 부모이다",
            "per:children": "대상은 인물의 자녀이다",
            "per:siblings": "대상은 인물의 형제자매이다",
            "per:spouse": "대상은 인물의 배우자이다",
            "per:other_family": "대상은 부모, 자녀, 형제자매, 배우자가 아닌 인물의 가족이다",
            "per:colleagues": "대상은 인물과 함께 일하는 사람이다",
            "per:product": "대상은 인물이 만든 제품이나 작품이다",
            "per:religion": "대상은 인물이 믿는 종교이다",
            "per:title": "대상은 인물의 직함이나 직위이다",
        },
    ),
    "문장: {sentence}\n주체: {subject} ({subject_type})\n대상: {object} ({object_type})",
)


_WITH_PARTICLE = {"원인": "원인으로", "결과": "결과로"}


def kobest_copa(asked: Literal["원인", "결과"], first: str, second: str) -> Preset:
    """COPA: the options are the row's own sentences, so the question is built per row."""
    return Preset(
        "kobest_copa",
        Choice(
            instructions=f"다음 두 문장 중 주어진 상황의 {_WITH_PARTICLE[asked]} 더 알맞은 것을 고르라.",
            criteria=dict.fromkeys((first, second)),
        ),
        "상황: {sentence}",
    )


def kobest_hellaswag(endings: Sequence[str]) -> Preset:
    """HellaSwag: the options are the row's four continuations, so the question is built per row."""
    return Preset(
        "kobest_hellaswag",
        Choice(
            instructions="주어진 상황에 바로 이어질 내용으로 가장 알맞은 것을 고르라.", criteria=dict.fromkeys(endings)
        ),
        "상황: {context}",
    )
