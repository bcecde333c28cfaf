"""A form's files and text → the inputs of an upload, while they stream in: no part is ever held whole."""

from __future__ import annotations

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from analyzer.web.problems import Problem
from analyzer.web.upload import Incoming, Upload, clean_name

#: The field whose text is an input, and the most that another field may hold.
TEXT_FIELD = "text"
_FIELD_BYTES = 4096
_MAX_FIELDS = 32
#: The headers of one part, and parts of any kind beside the files.
PART_HEADER_BYTES = 16 << 10
_MAX_PARTS = 256
#: What a form holds in memory at most, with the usual settings: parts stream by, and of what is kept of 64 files only the newest
#: half megabyte each, and the ends of the one that is read (analyzer/store/keep.py).
MEMORY_BYTES = 64 << 20


def boundary(content_type: str) -> bytes | None:
    """The boundary of a multipart/form-data body; None for another type. Raises Problem where it lacks one."""
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data":
        return None
    found = options.get(b"boundary")
    if not found:
        raise Problem("malformed_multipart", "the Content-Type names no boundary; let your client write that header itself")
    return found


class Form:
    """Takes the body's pieces. Files (any field with a file name) and the field ``text`` are inputs, other fields are ``fields``."""

    def __init__(self, mark: bytes, upload: Upload) -> None:
        self._upload = upload
        self._ended = False
        self._headers: dict[bytes, bytes] = {}
        self._header: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        self._name: str | None = None  # of the input that the part is
        self._field: str | None = None
        self._incoming: Incoming | None = None
        self._parts = 0
        self._header_bytes = 0
        self.fields: dict[str, str] = {}
        self._value = bytearray()
        try:
            self._parser = MultipartParser(
                mark,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": lambda data, start, end: self._header_part(0, data[start:end]),
                    "on_header_value": lambda data, start, end: self._header_part(1, data[start:end]),
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_end,
                    "on_part_data": self._data,
                    "on_part_end": self._end,
                    "on_end": self._all,
                },
            )
        except FormParserError as error:
            raise Problem("malformed_multipart", str(error)) from error

    def feed(self, data: bytes) -> None:
        """The next piece. Raises Problem where it is no form, IntakeError for what a part holds."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise Problem("malformed_multipart", str(error)) from error

    def close(self) -> None:
        """The body is over. Raises Problem where the form is not, or holds nothing."""
        if not self._ended:
            raise Problem("malformed_multipart", "the form ends in the middle of a part; send it again")

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise Problem("malformed_multipart", "more than {count} parts; send an archive (tar or zip) instead", count=_MAX_PARTS)
        self._headers = {}
        self._header_bytes = 0
        self._name = self._field = self._incoming = None
        self._value.clear()

    def _header_part(self, which: int, data: bytes) -> None:
        self._header_bytes += len(data)
        if self._header_bytes > PART_HEADER_BYTES:
            raise Problem("malformed_multipart", "the headers of a part are longer than {limit} bytes", limit=PART_HEADER_BYTES)
        self._header[which].extend(data)

    def _header_end(self) -> None:
        name, value = self._header
        self._headers[bytes(name).lower()] = bytes(value)
        self._header = (bytearray(), bytearray())

    def _headers_end(self) -> None:
        kind, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        if kind != b"form-data" or b"name" not in options:
            raise Problem("malformed_multipart", "a part of the form has no name")
        field = options[b"name"].decode("utf-8", "replace")
        if b"filename" in options:
            self._name = clean_name(options[b"filename"].decode("utf-8", "replace"), "file")
        elif field == TEXT_FIELD:
            self._name = clean_name(self.fields.get("name", ""), "paste")
        else:
            self._field = field
            if len(self.fields) >= _MAX_FIELDS:
                raise Problem(
                    "malformed_multipart",
                    "more than {count} fields; files and the field «{name}» are read",
                    count=_MAX_FIELDS,
                    name=TEXT_FIELD,
                )

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name is not None:
            if self._incoming is None:  # a file chooser left alone sends a part without a byte: no input
                self._incoming = self._upload.open(self._name)
            self._upload.feed(self._incoming, data[start:end])
        elif len(self._value) < _FIELD_BYTES:
            self._value += data[start:end][:_FIELD_BYTES]

    def _end(self) -> None:
        if self._incoming is not None:
            self._upload.close(self._incoming)
        elif self._field is not None:
            self.fields[self._field] = self._value.decode("utf-8", "replace")

    def _all(self) -> None:
        self._ended = True
