"""What decides a prepared folder, besides the text itself."""

from typing import Annotated

from pydantic import Field

from pag.config import Settings


class PrepareSettings(Settings):
    source_language: str = Field("en", min_length=2, max_length=3, description="two-letter code")
    target_language: str = Field("de", min_length=2, max_length=3, description="two-letter code")
    subwords: int = Field(24_000, ge=8, description="size of the source vocabulary (BPE)")
    characters: int = Field(300, ge=1, description="most frequent target characters that are kept")
    max_source: int = Field(50, ge=1, description="longest training source, in subwords")
    max_target: int = Field(500, ge=1, description="longest training target, in characters")
    max_ratio: float = Field(9.0, gt=1, description="largest ratio of the two sides' numbers of words")
    subword_lines: int = Field(1_000_000, ge=1, description="lines that BPE is learned from, evenly spread")
    hold_out: dict[str, Annotated[int, Field(ge=1)]] = Field(
        {}, description="sets that are taken from the training pairs, and how many pairs"
    )

    @property
    def languages(self) -> tuple[str, str]:
        return self.source_language, self.target_language


class QuestionSettings(Settings):
    documents: int = Field(64_000, ge=1, description="size of the document vocabulary")
    shortlist: int = Field(2_000, ge=1, description="question words that can be written without being copied")
    max_document: int = Field(
        660, ge=1, description="longest document, in words; longer ones are cut around the answer"
    )
    max_question: int = Field(60, ge=1, description="longest training question, in words")
    valid: int = Field(2_000, ge=1, description="training questions held out for validation where none are given")
    lower_case: bool = Field(True, description="words that differ in case only are the same")
    seed: int = Field(1, ge=0, description="of the choice of validation articles")
