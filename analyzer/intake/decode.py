"""Whatever the text's encoding is → UTF-8 bytes. Plain UTF-8 passes untouched; damage is left in place, line readers replace it."""

from __future__ import annotations

import codecs

from analyzer.intake.errors import IntakeError
from analyzer.model.message import Message

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
#: Bytes looked at before an input is called text; a sane log has no NUL among them.
SNIFF = 4096
#: Control characters that no text holds in number; tab, line ends, backspace (progress bars) and escape (colours) are left out.
_CONTROLS = bytes(set(range(32)) - {8, 9, 10, 13, 27})
#: First bytes of what is no text and cannot be made one.
_BINARY = (
    (b"\x7fELF", Message("an executable")),
    (b"\x89PNG", Message("a PNG picture: paste the text instead of a screenshot")),
    (b"\xff\xd8\xff", Message("a JPEG picture: paste the text instead of a screenshot")),
    (b"%PDF-", Message("a PDF: send the text inside it")),
    (b"SQLite format 3", Message("an SQLite database")),
)


class Decoder:
    """Bytes in, UTF-8 bytes out, in the same pieces. The first SNIFF bytes must come in the first piece or be all there is."""

    def __init__(self, head: bytes) -> None:
        """Raises IntakeError (not_text) where ``head`` is no text."""
        self._skip = 0
        self._decoder: codecs.IncrementalDecoder | None = None
        encoding = next(((bom, name) for bom, name in _BOMS if head.startswith(bom)), None)
        if encoding is not None:
            self._skip = len(encoding[0])
            if encoding[1] != "utf-8":
                self._decoder = codecs.getincrementaldecoder(encoding[1])("replace")
            return
        for magic, what in _BINARY:
            if head.startswith(magic):
                raise IntakeError("not_text", "this is {what}, not a log", what=what)
        sample = head[:SNIFF]
        nuls = sample.count(0)
        if not nuls:
            self._refuse_binary(sample)
            return
        # UTF-16 without a mark, as PowerShell's redirection writes it: every second byte of Latin text is NUL.
        for offset, name in ((1, "utf-16-le"), (0, "utf-16-be")):
            if sample[offset::2].count(0) > 0.9 * len(sample[offset::2]) and not sample[1 - offset :: 2].count(0):
                self._decoder = codecs.getincrementaldecoder(name)("replace")
                return
        if nuls > len(sample) // 100:
            raise IntakeError(
                "not_text",
                "{count} of the first {size} bytes are NUL: this is no text; send the log itself",
                count=nuls,
                size=len(sample),
            )
        self._refuse_binary(sample)

    @staticmethod
    def _refuse_binary(sample: bytes) -> None:
        """One control character in twenty bytes is no text, whatever the encoding: terminals use few, random bytes hold one in nine."""
        controls = len(sample) - len(sample.translate(None, _CONTROLS))
        if controls > max(2, len(sample) // 20):
            raise IntakeError(
                "not_text",
                "{count} of the first {size} bytes are control characters: this is no text; send the log itself",
                count=controls,
                size=len(sample),
            )

    def feed(self, data: bytes) -> bytes:
        """The next piece as UTF-8."""
        if self._skip:
            skipped = min(self._skip, len(data))
            data, self._skip = data[skipped:], self._skip - skipped
        return data if self._decoder is None else self._decoder.decode(data).encode()

    def close(self) -> bytes:
        """What an incomplete last character leaves."""
        return b"" if self._decoder is None else self._decoder.decode(b"", final=True).encode()
