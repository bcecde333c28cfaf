"""Makes analyzer/slack/font/ledger.otf: the characters of the ledger's picture, out of Noto Sans CJK (Debian: fonts-noto-cjk).

    pip install fonttools
    python tools/picture_font.py /usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc

It gets the common Chinese characters beside those that a picture holds today, so that a new word needs no new
font. A picture then looks the same on every machine, whatever fonts it has. To be run again when a test says that a character is missing.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTCollection

from analyzer.slack.picture import FONT, characters


def main(source: Path) -> None:
    """Cut the simplified Chinese face of ``source`` down to what a picture can hold."""
    face = next(face for face in TTCollection(source) if face["name"].getDebugName(1) == "Noto Sans CJK SC")
    options = subset.Options()
    options.layout_features = ["kern"]
    options.name_IDs = [0, 1, 2, 4, 6, 13, 14]  # copyright, names, licence
    options.notdef_outline = True
    options.desubroutinize = False
    cutter = subset.Subsetter(options)
    cutter.populate(text="".join(sorted(characters() | common())))
    cutter.subset(face)
    face.recalcTimestamp = False  # the same font from the same source
    FONT.parent.mkdir(parents=True, exist_ok=True)
    face.save(FONT)


def common() -> frozenset[str]:
    """The first level of GB 2312 (3,755 characters, rows 16 to 55) and what stands between them in a sentence."""
    cells = (bytes((0xA0 + row, 0xA0 + cell)) for row in range(16, 56) for cell in range(1, 95))
    return frozenset("".join(cell.decode("gb2312", "ignore") for cell in cells)) | frozenset("×→–−%（）：，、。≈±°µ")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
