"""Makes analyzer/slack/font/ledger.otf: the characters of the ledger's picture, out of Noto Sans CJK (Debian: fonts-noto-cjk).

    pip install fonttools
    python tools/picture_font.py /usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc

A picture then looks the same on every machine, whatever fonts it has. To be run again when a test says that a character is missing.
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
    cutter.populate(text="".join(sorted(characters())))
    cutter.subset(face)
    face.recalcTimestamp = False  # the same font from the same source
    FONT.parent.mkdir(parents=True, exist_ok=True)
    face.save(FONT)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
