"""zip and tar, alone and in each other: every shape that tools write, however cut; damage is told, and a bomb is met by its bound."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import tarfile
import zipfile
from typing import IO

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer import Analysis, analyze
from analyzer.analysis import member_name
from analyzer.intake.archives import Tar, Zip
from analyzer.intake.errors import IntakeError
from analyzer.intake.limits import Limits
from analyzer.model.units import KIB, MIB
from tests.case_files import inputs

FILES = [(path.name, path.read_bytes()) for path in inputs("second-process-joins-gpu-oom-serving")]
ENGINE = inputs("vllm-v0-graph-capture-oom-16gb")[0].read_bytes()
LONG = "a-folder-of-a-cluster/" * 8 + "日志.log"


class _NoSeek(io.RawIOBase):
    """A pipe to write to: zip then puts sizes behind a member."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.data += data
        return len(data)


def tarred(files: list[tuple[str, bytes]], form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        folder = tarfile.TarInfo("logs")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("link.log")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return out.getvalue()


def zipped(files: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED, out: IO[bytes] | None = None, *, big: bool = False) -> bytes:
    target = out or io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        archive.writestr("logs/", b"")
        archive.writestr("__MACOSX/._x", b"\0\1\2")
        for name, data in files:
            with archive.open(name, "w", force_zip64=big) as member:
                member.write(data)
    return bytes(target.data) if isinstance(target, _NoSeek) else target.getvalue()  # type: ignore[attr-defined]


def read(kind: type[Tar | Zip], data: bytes, cuts: list[float] | None = None, limits: Limits = Limits()) -> list[tuple[str, bytes]]:  # noqa: B008
    found: list[tuple[str, bytearray]] = []

    class Member:
        def __init__(self, name: str) -> None:
            self.data = bytearray()
            found.append((name, self.data))

        def feed(self, data: bytes) -> None:
            self.data += data

        def close(self, *, truncated: bool = False) -> None:
            return

    machine = kind(limits, Member)
    places = [0, *sorted(round(cut * len(data)) for cut in cuts or []), len(data)]
    for start, end in itertools.pairwise(places):
        machine.feed(data[start:end])
    machine.close()
    return [(name, bytes(data)) for name, data in found]


def _outcome(kind: type[Tar | Zip], data: bytes) -> str:
    try:
        read(kind, data)
    except IntakeError as error:
        return error.code
    return "read"


PLAIN = [("engine.log", ENGINE), (LONG, b"one\n"), ("empty.log", b""), ("block.log", bytes(range(32, 96)) * 8)]
SHAPES = {
    "ustar": (Tar, tarred([*PLAIN[:1], *PLAIN[2:]], tarfile.USTAR_FORMAT), [*PLAIN[:1], *PLAIN[2:]]),
    "gnu": (Tar, tarred(PLAIN, tarfile.GNU_FORMAT), PLAIN),
    "pax": (Tar, tarred(PLAIN), PLAIN),
    "zip": (Zip, zipped(PLAIN), PLAIN),
    "zip, stored": (Zip, zipped(PLAIN, zipfile.ZIP_STORED), PLAIN),
    "zip, bzip2": (Zip, zipped(PLAIN, zipfile.ZIP_BZIP2), PLAIN),
    "zip from a pipe": (Zip, zipped(PLAIN, out=_NoSeek()), PLAIN),
    "zip64": (Zip, zipped(PLAIN, big=True), PLAIN),
    "zip64 from a pipe": (Zip, zipped(PLAIN, out=_NoSeek(), big=True), PLAIN),
    "an empty zip": (Zip, b"PK\x05\x06" + bytes(18), []),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@settings(max_examples=12)
@given(cuts=st.lists(st.floats(0, 1), max_size=12))
def test_members_come_out_however_the_archive_is_cut(
    shape: tuple[type[Tar | Zip], bytes, list[tuple[str, bytes]]], cuts: list[float]
) -> None:
    kind, data, files = shape
    assert read(kind, data, cuts) == files


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_members_come_out_byte_by_byte(shape: tuple[type[Tar | Zip], bytes, list[tuple[str, bytes]]]) -> None:
    kind, data, files = shape
    assert read(kind, data, [place / len(data) for place in range(len(data))]) == files


@pytest.mark.parametrize(("kind", "data"), [(Zip, zipped(PLAIN)), (Tar, tarred(PLAIN))], ids=["zip", "tar"])
def test_damage_is_told_and_never_anything_else(kind: type[Tar | Zip], data: bytes) -> None:
    for place in range(0, len(data), 13):
        damaged = data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :]
        assert _outcome(kind, damaged) in ("read", "malformed_input", "expansion_too_large")
    for size in range(1, min(3000, data.find(b"PK\x01\x02") % len(data)), 61):
        with pytest.raises(IntakeError):
            read(kind, data[:size])


@settings(max_examples=200)
@given(data=st.binary(max_size=600))
def test_any_bytes_end(data: bytes) -> None:
    for kind, head in ((Zip, b"PK\x03\x04"), (Tar, b"")):
        assert _outcome(kind, head + data) in ("read", "malformed_input")


def _encrypted() -> bytes:
    data = bytearray(zipped([("secret.log", b"x")]))
    at = data.index(b"PK\x03\x04", data.index(b"._x"))
    data[at + 6] |= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (_encrypted(), "password"),
        (zipped([("a.log", b"x" * 100)], zipfile.ZIP_LZMA), "deflate"),
    ],
)
def test_what_is_not_read_is_said(data: bytes, said: str) -> None:
    with pytest.raises(IntakeError, match=said) as caught:
        read(Zip, data)
    assert caught.value.code == "malformed_input"


# --- as inputs of an analysis --------------------------------------------------------------------------------------------------------


def report(name: str, data: bytes, limits: Limits = Limits()) -> dict[str, object]:  # noqa: B008
    made: dict[str, object] = json.loads(analyze([(name, io.BytesIO(data))], limits=limits).to_json())
    return made


DIRECT = json.loads(analyze([(name, io.BytesIO(data)) for name, data in FILES]).to_json())
PACKED = {
    "tar": tarred(FILES),
    "tar.gz": gzip.compress(tarred(FILES)),
    "tar.zst": zstandard.compress(tarred(FILES)),
    "zip": zipped(FILES),
    "zip.gz": gzip.compress(zipped(FILES)),
    "zip of gzips": zipped([(name, gzip.compress(data)) for name, data in FILES]),
    "tar.gz in a zip": zipped([("all.tar.gz", gzip.compress(tarred(FILES)))]),
    "zip in a tar": tarred([("all.zip", zipped(FILES))]),
}


@pytest.mark.parametrize("data", PACKED.values(), ids=PACKED.keys())
def test_an_archive_is_read_like_its_files(data: bytes) -> None:
    assert report("logs.bin", data) == DIRECT


def test_what_is_no_text_in_an_archive_is_skipped_and_counted() -> None:
    core = b"\x7fELF" + bytes(5000)
    found = analyze([("all.zip", io.BytesIO(zipped([("core", core), *FILES, ("tiny.bin", b"\x7fELF")])))])
    assert [(info.name, info.skipped_bytes) for info in found.inputs] == [
        ("core", len(core)),
        *((name, 0) for name, _ in FILES),
        ("tiny.bin", 4),
    ]
    assert found.outcome.cause == DIRECT["outcome"]["cause"]
    with pytest.raises(IntakeError) as caught:
        report("all.zip", zipped([("core", core)]))
    assert caught.value.code == "empty_input"


@settings(max_examples=20)
@given(share=st.floats(0.4, 0.98))
def test_an_archive_that_its_sender_cut_is_read_as_far_as_it_goes(share: float) -> None:
    data = gzip.compress(tarred([("engine.log", ENGINE)]))
    analysis = Analysis()
    sink = analysis.open("logs.tar.gz")
    sink.feed(data[: round(share * len(data))])
    sink.close(truncated=True)
    assert analysis.report().inputs[0].truncated


def _nested(depth: int) -> bytes:
    data = ENGINE
    for level in range(depth):
        data = zipped([(f"{level}.zip" if level else "engine.log", data)])
    return data


def test_archives_are_nested_once() -> None:
    assert report("a.zip", _nested(2))["inputs"][0]["name"] == "engine.log"  # type: ignore[index]
    with pytest.raises(IntakeError) as caught:
        report("a.zip", _nested(3))
    assert caught.value.code == "expansion_too_large"


LINES = b"INFO 01-01 00:00:00 line\n" * (8 * MIB // 25)
#: Each within the bounds of its own steps, over those of the whole.
BOMBS = {
    "gzip": (gzip.compress(LINES), "expansion_too_large"),
    "zstd": (zstandard.compress(LINES), "expansion_too_large"),
    "zip": (zipped([("a.log", LINES)]), "expansion_too_large"),
    "zip of many": (zipped([(f"{n}.log", LINES[: MIB // 2]) for n in range(8)]), "expansion_too_large"),
    "tar.gz": (gzip.compress(tarred([("a.log", LINES)])), "expansion_too_large"),
    "gzips in a zip": (zipped([(f"{n}.gz", gzip.compress(LINES[: MIB // 2])) for n in range(8)]), "expansion_too_large"),
    "zips in a zip": (zipped([(f"{n}.zip", zipped([("a", LINES[: MIB // 2])])) for n in range(8)]), "expansion_too_large"),
    "too many files": (zipped([(f"{n}.log", b"x\n") for n in range(65)]), "input_too_large"),
    "too many entries": (tarred([(f"._{n}", b"") for n in range(10_001)]), "input_too_large"),
}


@pytest.mark.parametrize(("data", "code"), BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_refused(data: bytes, code: str) -> None:
    limits = Limits(expansion_grace_bytes=256 * KIB, max_expansion_ratio=20, max_expanded_bytes=3 * MIB)
    with pytest.raises(IntakeError) as caught:
        report("bomb", data, limits)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("engine.log", "engine.log"),
        ("./pod-0/engine.log", "pod-0/engine.log"),
        ("../../etc/passwd", "etc/passwd"),
        ("/abs/x.log", "abs/x.log"),
        ("C:\\logs\\x.log", "C:/logs/x.log"),
        ("a\x1b[31m\0b", "a[31mb"),
        ("home/carol/x.log", "/home/carol/x.log"),
        ("..", "member"),
        ("x" * 300, "x" * 200),
    ],
)
def test_names_of_members(path: str, name: str) -> None:
    assert member_name(path) == name
