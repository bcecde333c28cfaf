"""Compressed inputs: every shape that tools write, however cut; damage is told, and a bomb is met by its bound."""

from __future__ import annotations

import gzip
import itertools
import random
import subprocess
import sys
import zlib

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.intake.decompress import Deflated, Plain, Zstandard, expander
from analyzer.intake.errors import IntakeError
from analyzer.intake.limits import Limits
from analyzer.model.units import KIB, MIB

LOG = b"".join(b"INFO 01-15 10:22:%02d [gpu_worker.py:298] line %d of a log\n" % (number % 60, number) for number in range(3000))
HALF = len(LOG) // 2


def zst(data: bytes, **more: bool) -> bytes:
    return zstandard.ZstdCompressor(level=3, **more).compress(data)


def streamed(data: bytes) -> bytes:
    """As a pipe makes it: the frame does not say its size."""
    machine = zstandard.ZstdCompressor().compressobj()
    return machine.compress(data) + machine.flush()


def expand(data: bytes, limits: Limits = Limits(), cuts: list[float] | None = None) -> bytes:  # noqa: B008 - frozen
    machine = expander(data[:4], limits)
    places = [0, *sorted(round(cut * len(data)) for cut in cuts or []), len(data)]
    found = b"".join(piece for start, end in itertools.pairwise(places) for piece in machine.feed(data[start:end]))
    machine.close()
    return found


SHAPES = {
    "plain": (LOG, LOG),
    "gzip": (gzip.compress(LOG, mtime=0), LOG),
    "gzip, stored": (gzip.compress(LOG, compresslevel=0, mtime=0), LOG),
    "gzip, two members": (gzip.compress(LOG[:HALF], mtime=0) + gzip.compress(LOG[HALF:], mtime=0), LOG),
    "gzip, an empty member between": (gzip.compress(LOG[:HALF]) + gzip.compress(b"") + gzip.compress(LOG[HALF:]), LOG),
    "gzip, padded": (gzip.compress(LOG) + bytes(1536), LOG),
    "gzip of nothing": (gzip.compress(b""), b""),
    "zstd": (zst(LOG), LOG),
    "zstd with a checksum": (zst(LOG, write_checksum=True), LOG),
    "zstd from a pipe": (streamed(LOG), LOG),
    "zstd, two frames": (zst(LOG[:HALF]) + streamed(LOG[HALF:]), LOG),
    "zstd of nothing": (zst(b""), b""),
}


@pytest.mark.parametrize(("packed", "plain"), SHAPES.values(), ids=SHAPES.keys())
@settings(max_examples=20)
@given(cuts=st.lists(st.floats(0, 1), max_size=8))
def test_every_shape_expands_however_it_is_cut(packed: bytes, plain: bytes, cuts: list[float]) -> None:
    assert expand(packed, cuts=cuts) == plain


@pytest.mark.parametrize(("packed", "plain"), SHAPES.values(), ids=SHAPES.keys())
def test_byte_by_byte(packed: bytes, plain: bytes) -> None:
    machine = expander(packed[:4])
    assert b"".join(piece for place in range(len(packed)) for piece in machine.feed(packed[place : place + 1])) == plain
    machine.close()


@pytest.mark.parametrize(
    ("head", "kind"),
    [(b"\x1f\x8b\x08\x00", Deflated), (b"\x28\xb5\x2f\xfd", Zstandard), (b"INFO", Plain), (b"", Plain), (b"\x1f", Plain)],
)
def test_the_first_bytes_tell(head: bytes, kind: type) -> None:
    assert type(expander(head)) is kind


@pytest.mark.parametrize(
    ("packed", "said"),
    [
        (SHAPES["gzip"][0][:-1], "gzip input is damaged after .* in the middle"),
        (SHAPES["gzip"][0][:100], "in the middle"),
        (b"\x1f\x8b", "in the middle"),
        (SHAPES["gzip"][0][:-8] + b"\0\0\0\0" + SHAPES["gzip"][0][-4:], "gzip input is damaged"),
        (b"\x1f\x8b\x08\x00" + b"\xff" * 60, "gzip input is damaged"),
        (SHAPES["gzip"][0] + b"what follows is no member", "gzip input is damaged"),
        (SHAPES["zstd"][0][:-1], "zstd input is damaged after .* in the middle"),
        (SHAPES["zstd"][0][:6], "in the middle"),
        (b"\x28\xb5\x2f\xfd" + b"\xff" * 60, "zstd input is damaged"),
        (SHAPES["zstd with a checksum"][0][:-4] + b"\0\0\0\0", "zstd input is damaged"),
    ],
    ids=[
        "gzip cut by a byte", "gzip's head", "gzip's first bytes", "gzip's sum", "gzip's blocks", "gzip's tail",
        "zstd cut by a byte", "zstd's head", "zstd's blocks", "zstd's sum",
    ],
)  # fmt: skip
def test_damage_is_told(packed: bytes, said: str) -> None:
    with pytest.raises(IntakeError, match=said) as caught:
        expand(packed)
    assert caught.value.code == "malformed_input"


BOMB = bytes(4 * MIB)
#: Honest data: it cannot be compressed.
NOISE = random.Random(7).randbytes(MIB)
BOMBS = {
    "gzip": gzip.compress(BOMB),
    "gzip in members": gzip.compress(bytes(MIB)) * 4,
    "zstd": zst(BOMB),
    "zstd from a pipe": streamed(BOMB),
}


@pytest.mark.parametrize("packed", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_stopped_by_its_ratio(packed: bytes) -> None:
    limits = Limits(max_expansion_ratio=50, expansion_grace_bytes=64 * KIB)
    with pytest.raises(IntakeError, match="more than 50-fold") as caught:
        expand(packed, limits)
    assert caught.value.code == "expansion_too_large"


@pytest.mark.parametrize("packed", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_stopped_by_its_size_before_it_has_gone_off(packed: bytes) -> None:
    limits = Limits(max_expanded_bytes=MIB)
    given_out: list[int] = []
    with pytest.raises(IntakeError, match="expands to more than 1048576 bytes") as caught:
        given_out.extend(len(piece) for piece in expander(packed[:4], limits).feed(packed))
    assert caught.value.code == "expansion_too_large"
    assert sum(given_out) <= MIB


def test_what_is_allowed_expands_to_the_last_byte() -> None:
    exactly = Limits(max_expanded_bytes=len(BOMB), max_expansion_ratio=1 << 20)
    assert all(expand(packed, exactly) == BOMB for packed in BOMBS.values())
    # Below the grace no ratio is looked at, and honest data never reaches one.
    assert expand(BOMBS["gzip"], Limits(max_expansion_ratio=2, expansion_grace_bytes=len(BOMB))) == BOMB
    assert expand(gzip.compress(NOISE), Limits(max_expansion_ratio=2, expansion_grace_bytes=0)) == NOISE


@pytest.mark.parametrize("packed", [gzip.compress(bytes(16 * MIB)), zst(bytes(16 * MIB))], ids=["gzip", "zstd"])
def test_pieces_are_of_a_megabyte_at_most(packed: bytes) -> None:
    sizes = [len(piece) for piece in expander(packed[:4]).feed(packed)]
    assert max(sizes) <= MIB
    assert sum(sizes) == 16 * MIB


def test_a_bomb_of_repeated_blocks_is_met_before_it_fills_the_memory() -> None:
    """The densest thing zstd has: blocks of four bytes that stand for 128 KiB each."""
    block = ((128 * KIB << 3) | 0b010).to_bytes(3, "little") + b"x"
    packed = b"\x28\xb5\x2f\xfd" + b"\x00\x58" + block * 20000
    code = (
        "import resource, sys\n"
        "from analyzer.intake.decompress import expander\n"
        "from analyzer.intake.errors import IntakeError\n"
        "packed = sys.stdin.buffer.read()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n"
        "    sizes = [len(piece) for piece in expander(packed[:4]).feed(packed)]\n"
        "except IntakeError as error:\n"
        "    print(error.code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], input=packed, capture_output=True, timeout=60, check=True)
    told, kilobytes = run.stdout.decode().split()
    assert told == "expansion_too_large"
    assert int(kilobytes) * KIB < 64 * MIB


def test_zlib_is_taken_too() -> None:
    machine = Deflated("deflate", zlib.MAX_WBITS, Limits())
    assert b"".join(machine.feed(zlib.compress(LOG))) == LOG
    machine.close()
