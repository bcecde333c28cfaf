"""A sentence for a person, in every language of the product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LANGUAGES = ("en", "zh")
DEFAULT_LANGUAGE = "en"


@dataclass(frozen=True, slots=True)
class Text:
    """The same sentence in English and Chinese. Figures and ids inside it are the same in both."""

    en: str
    zh: str

    def get(self, language: str = DEFAULT_LANGUAGE) -> str:
        """The sentence in ``language``; English for a language that the product does not speak."""
        return self.zh if language == "zh" else self.en

    def format(self, **values: object) -> Text:
        """Both sentences with their ``{placeholders}`` filled in. Raises KeyError where a value is missing."""
        return Text(self.en.format(**values), self.zh.format(**values))

    @classmethod
    def of(cls, words: Mapping[str, str] | str) -> Text:
        """From a pattern file's ``{en: …, zh: …}``; a bare string is a name or a flag and the same in every language."""
        if isinstance(words, str):
            return cls(words, words)
        return cls(words["en"], words["zh"])
