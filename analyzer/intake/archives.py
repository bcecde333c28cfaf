"""zip and tar → their members, read while they stream by: no seeking, no file on a disk, nothing held but a header.

A member is found by the header that stands before it; a zip's directory at its end is not needed, so members that overlap there
(the densest of zip bombs) cannot be written at all.
"""

from __future__ import annotations

import abc
import struct
import zlib
from collections.abc import Callable
from typing import Any, Protocol

from analyzer.intake.decompress import STEP, Bounded
from analyzer.intake.errors import IntakeError
from analyzer.intake.limits import Limits
from analyzer.model.message import Message

#: A member's name and the extended headers of a tar are held whole: so long may they be.
_HEADER_BYTES = 1 << 16
#: Members of any kind, folders too; those that are read are bounded by Limits.max_files.
_ENTRIES = 10_000
#: Bytes that are unpacked at once: what is left of them behind a member is put back.
_SLICE = 1 << 16
_BLOCK = 512
_LOCAL, _DESCRIPTOR = b"PK\x03\x04", b"PK\x07\x08"
_EMPTY_ZIP = b"PK\x05\x06"
#: What stands behind a zip's last member: its directory, in one of four shapes.
_DIRECTORY = (b"PK\x01\x02", _EMPTY_ZIP, b"PK\x06\x06", b"PK\x06\x08")
_ZIP64 = 0xFFFFFFFF
_ENCRYPTED, _SIZES_FOLLOW = 1, 8
_STORED, _DEFLATED, _BZIP2 = 0, 8, 12
#: The longest data descriptor and the signature behind it; the directory is longer.
_DESCRIPTOR_BYTES = 28


class Target(Protocol):
    """Takes bytes as they come."""

    def feed(self, data: bytes) -> None: ...

    def close(self, *, truncated: bool = False) -> None: ...


def is_zip(head: bytes) -> bool:
    """Whether an input that begins with ``head`` (four bytes) is a zip."""
    return head.startswith((_LOCAL, _EMPTY_ZIP))


def is_tar(head: bytes) -> bool:
    """Whether an input that begins with ``head`` (512 bytes) is a tar, of any of its formats: the header's checksum tells."""
    if 0 not in head:
        return False  # a text, as nearly every input is: it should not wait for the module
    import tarfile

    try:
        tarfile.TarInfo.frombuf(head[:_BLOCK], "utf-8", "replace")
    except (tarfile.HeaderError, ValueError):
        return False
    return True


def may_be_tar(head: bytes) -> bool:
    """Whether a tar may begin with ``head``, which is shorter than a header: its name's field is filled up with NUL."""
    return len(head) < 108 or 0 in head[:108]


def _uninteresting(name: str) -> bool:
    """What systems put into archives beside one's files."""
    parts = name.split("/")
    return parts[-1].startswith("._") or parts[-1] == ".DS_Store" or parts[0] == "__MACOSX"


class _Archive(Bounded, abc.ABC):
    """What zip and tar share: bytes wait until a step has what it needs, and each step says which one is next."""

    def __init__(self, what: str, limits: Limits, open_member: Callable[[str], Target]) -> None:
        super().__init__(what, limits)
        self._open = open_member
        self._waiting = bytearray()
        self._step: Callable[[], bool] = self._header
        self._member: Target | None = None
        self._ended = False
        self._entries = 0

    def feed(self, data: bytes) -> None:
        """The next bytes. Raises IntakeError for what cannot be read, and for what members raise."""
        self._taken(len(data))
        if self._ended:
            return  # a directory, padding
        self._waiting += data
        going = True
        while going:
            going = self._step()

    def close(self, *, truncated: bool = False) -> None:
        """The archive is over. Raises IntakeError where it ends in the middle, unless it was ``truncated``."""
        if truncated:
            if self._member is not None:
                self._member.close(truncated=True)
        elif not self._ended:
            raise self._broken(Message("it ends in the middle"))

    @abc.abstractmethod
    def _header(self) -> bool:
        """The header of the next member, once all of it has come; whether there may be another step."""

    def _begin(self, name: str) -> None:
        self._entries += 1
        if self._entries > _ENTRIES:
            raise IntakeError(
                "input_too_large", "more than {count} members in the {what} archive; send the logs only", count=_ENTRIES, what=self.what
            )
        self._member = None if name.endswith("/") or _uninteresting(name) else self._open(name)

    def _give(self, data: bytes) -> None:
        self._given(len(data))
        if self._member is not None and data:
            self._member.feed(data)

    def _end(self) -> None:
        member, self._member = self._member, None
        if member is not None:
            member.close()

    def _take(self, size: int) -> bytes:
        data = bytes(memoryview(self._waiting)[:size])
        del self._waiting[:size]
        return data


class Tar(_Archive):
    """ustar, GNU and pax archives."""

    def __init__(self, limits: Limits, open_member: Callable[[str], Target]) -> None:
        super().__init__("tar", limits, open_member)
        self._left = self._padding = 0
        self._long: dict[str, str] = {}  # what an extended header says of the next member

    def close(self, *, truncated: bool = False) -> None:
        # An archive without the empty blocks at its end is read by every tar, too.
        self._ended = self._ended or (self._step == self._header and not self._waiting)
        super().close(truncated=truncated)

    def _header(self) -> bool:
        if len(self._waiting) < _BLOCK:
            return False
        block = self._take(_BLOCK)
        if not any(block):
            self._ended = True
            self._waiting.clear()
            return False
        import tarfile

        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "replace")
        except (tarfile.HeaderError, ValueError) as error:
            raise self._broken(error) from error
        size = info.size
        if size < 0 or info.type == tarfile.GNUTYPE_SPARSE:
            raise self._broken(Message("sparse files are not read; send the logs themselves"))
        if info.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME):
            if size > _HEADER_BYTES:
                raise self._broken(Message("a header is too long"))
            self._left = size
            self._step = self._pax if info.type != tarfile.GNUTYPE_LONGNAME else self._long_name
            return True
        known, self._long = self._long, {}
        if info.isreg() and known.get("size", "").isdecimal():
            size = int(known["size"][:20])
        elif not info.isreg() and info.type in tarfile.SUPPORTED_TYPES and info.type not in (tarfile.XGLTYPE, tarfile.GNUTYPE_LONGLINK):
            size = 0  # links, folders and devices
        name = known.get("path") or info.name
        self._begin(name if info.isreg() else "/")
        self._left, self._padding = size, -size % _BLOCK
        self._step = self._data
        return True

    def _extended(self) -> bytes | None:
        """The whole of an extended header, without its padding; None where more has to come."""
        size = self._left + (-self._left % _BLOCK)
        return self._take(size)[: self._left] if len(self._waiting) >= size else None

    def _pax(self) -> bool:
        data = self._extended()
        if data is None:
            return False
        while data:
            length, _, rest = data.partition(b" ")
            if not length.isdigit() or len(length) > 6 or not len(length) + 2 < int(length) <= len(data):
                break  # a damaged record: what follows it cannot be found
            key, _, value = rest[: int(length) - len(length) - 2].partition(b"=")
            self._long[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
            data = data[int(length) :]
        self._step = self._header
        return True

    def _long_name(self) -> bool:
        data = self._extended()
        if data is None:
            return False
        self._long["path"] = data.rstrip(b"\0").decode("utf-8", "replace")
        self._step = self._header
        return True

    def _data(self) -> bool:
        piece = self._take(min(self._left, len(self._waiting)))
        self._left -= len(piece)
        self._give(piece)
        if self._left:
            return False
        self._end()
        self._step = self._pad
        return True

    def _pad(self) -> bool:
        skipped = min(self._padding, len(self._waiting))
        del self._waiting[:skipped]
        self._padding -= skipped
        if self._padding:
            return False
        self._step = self._header
        return True


class Zip(_Archive):
    """zip archives with stored, deflated and bzip2 members, zip64 too."""

    def __init__(self, limits: Limits, open_member: Callable[[str], Target]) -> None:
        super().__init__("zip", limits, open_member)
        self._sizes_follow = False
        self._method = self._crc = self._seen_crc = 0
        self._size = self._packed = self._seen = 0  # of the member: bytes inside, bytes in the archive, and those that came out
        self._consumed = 0
        self._machine: Any = None

    def _header(self) -> bool:
        if len(self._waiting) < 4:
            return False
        if self._waiting.startswith(_DIRECTORY):
            self._ended = True
            self._waiting.clear()
            return False
        if not self._waiting.startswith(_LOCAL):
            raise self._broken(Message("no member begins where one should"))
        if len(self._waiting) < 30:
            return False
        _, flags, method, _, _, crc, packed, size, name_length, extra_length = struct.unpack_from("<HHHHHIIIHH", self._waiting, 4)
        if len(self._waiting) < 30 + name_length + extra_length:
            return False
        header = self._take(30 + name_length + extra_length)
        name = _decoded(header[30 : 30 + name_length])
        packed, size = _zip64(header[30 + name_length :], packed, size)
        if flags & _ENCRYPTED:
            raise self._broken(Message("{name} is encrypted; send it without a password", name=repr(name)))
        if method not in (_STORED, _DEFLATED, _BZIP2):
            raise self._broken(
                Message("{name} is packed by method {method}, which is not read; use deflate", name=repr(name), method=method)
            )
        self._sizes_follow = bool(flags & _SIZES_FOLLOW)
        if self._sizes_follow and method == _STORED and not name.endswith("/"):
            raise self._broken(Message("{name} is stored without its size; pack it with deflate", name=repr(name)))
        self._method, self._crc, self._packed, self._size = method, crc, packed, size
        self._seen = self._seen_crc = self._consumed = 0
        import bz2

        self._machine = {_DEFLATED: lambda: zlib.decompressobj(-zlib.MAX_WBITS), _BZIP2: bz2.BZ2Decompressor}.get(method, lambda: None)()
        self._begin(name)
        self._step = self._stored if method == _STORED else self._unpacked
        return True

    def _stored(self) -> bool:
        piece = self._take(min(self._packed - self._consumed, len(self._waiting), STEP))
        self._consumed += len(piece)
        self._out_of_member(piece)
        if self._consumed < self._packed:
            return bool(self._waiting)
        return self._finish_member()

    def _unpacked(self) -> bool:
        data = self._take(min(len(self._waiting), _SLICE))
        if not self._sizes_follow:
            room = self._packed - self._consumed
            data, back = data[:room], data[room:]
        else:
            back = b""
        try:
            while data and not self._machine.eof:
                piece = self._machine.decompress(data, STEP)
                rest = self._rest()
                self._consumed += len(data) - len(rest)
                data = rest
                self._out_of_member(piece)
                # bzip2's machine keeps what it was given: it is asked again with nothing.
                while self._method == _BZIP2 and not self._machine.eof and not self._machine.needs_input:
                    self._out_of_member(self._machine.decompress(b"", STEP))
                    if self._machine.eof:
                        data = self._rest()
                        self._consumed -= len(data)
        except (zlib.error, OSError, EOFError) as error:
            raise self._broken(error) from error
        self._waiting[:0] = data + back
        if self._machine.eof:
            return self._finish_member()
        if back:
            raise self._broken(Message("a member is longer than its header says"))
        return bool(self._waiting)

    def _rest(self) -> bytes:
        """What the machine has not taken."""
        if self._machine.eof:
            return bytes(self._machine.unused_data)
        return b"" if self._method == _BZIP2 else bytes(self._machine.unconsumed_tail)

    def _out_of_member(self, piece: bytes) -> None:
        self._seen += len(piece)
        self._seen_crc = zlib.crc32(piece, self._seen_crc)
        self._give(piece)

    def _finish_member(self) -> bool:
        if self._sizes_follow and self._method != _STORED:
            self._step = self._descriptor
        else:
            if not self._sizes_follow:
                self._check(self._crc, self._size)
            self._end()
            self._step = self._header
        return True

    def _descriptor(self) -> bool:
        if len(self._waiting) < _DESCRIPTOR_BYTES:
            return False
        signed = 4 if self._waiting.startswith(_DESCRIPTOR) else 0
        for sizes, length in (("<III", 12), ("<IQQ", 20)):
            crc, packed, size = struct.unpack_from(sizes, self._waiting, signed)
            follows = bytes(self._waiting[signed + length : signed + length + 4])
            if (packed, size) == (self._consumed, self._seen) and follows in (_LOCAL, *_DIRECTORY):
                self._check(crc, size)
                self._take(signed + length)
                self._end()
                self._step = self._header
                return True
        raise self._broken(Message("a member's size is not what follows it"))

    def _check(self, crc: int, size: int) -> None:
        if (crc, size) != (self._seen_crc, self._seen):
            raise self._broken(Message("a member is not what its checksum says"))


def _decoded(name: bytes) -> str:
    """A member's name: UTF-8 today, else what Chinese systems write, else what the format says."""
    for encoding in ("utf-8", "gb18030"):
        try:
            return name.decode(encoding)
        except UnicodeDecodeError:
            continue
    return name.decode("cp437")


def _zip64(extra: bytes, packed: int, size: int) -> tuple[int, int]:
    """(packed, size) where a header leaves them to its extra field."""
    while len(extra) >= 4:
        kind, length = struct.unpack_from("<HH", extra)
        values = extra[4 : 4 + length]
        if kind == 1:
            if size == _ZIP64 and len(values) >= 8:
                size, values = struct.unpack_from("<Q", values)[0], values[8:]
            if packed == _ZIP64 and len(values) >= 8:
                packed = struct.unpack_from("<Q", values)[0]
        extra = extra[4 + length :]
    return packed, size


__all__ = ["Tar", "Target", "Zip", "is_tar", "is_zip", "may_be_tar"]
