"""Bytes → tagged lines: decompress, decode, cut into blocks of whole lines, strip what wraps a line, read the engine's prefix, redact."""
