"""Envelopes of an archive's records, found where they lie in the bytes of a block.

Decoding seventeen headers into objects costs more than all else that replay does with a record. An envelope that this
project's writer wrote has its headers in one order and of known lengths, so one expression finds them where they lie. What
differs between two envelopes of one type, writer and round lies between the same bytes, at the same distances: from the first
a `Form` is made, by which the next ones are cut apart and their constant bytes compared. Whatever neither fits exactly (another
order, another tool's headers, text that is not ASCII) is decoded as usual, and refused or taken as usual: a test holds the ways
against each other.
"""

import re
from datetime import datetime
from struct import Struct
from struct import error as StructError

from bat_events.replay.lines import Line

VARINT = rb"([\x80-\xff]*[\x00-\x7f])"
_TEXT = rb"([\x02-\x7e][ -~]{1,63})"  # with the byte before it that says how long it is
_NUMBER = rb"(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?"
_COST = rb'"(?:(?:wall_s|device_s|sandbox_s)":%s|(?:tokens_in|tokens_out|bytes_out)":(?:0|[1-9]\d{0,17}))' % _NUMBER
ENVELOPE = re.compile(
    rb"([\x1a\x1c\x1e\x20\x22])"
    rb"\x1cce_specversion\x061\.0"
    rb"\x18content-type\x20application/avro"
    rb"\x0ace_id@([0-9a-f]{32})"
    rb"\x12ce_source" + _TEXT + rb"\x0ece_type" + _TEXT + rb"\x0ece_time6(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)"
    rb"\x14ce_subject" + _TEXT + rb"\x1ace_dataschema\x8e\x01sha256:([0-9a-f]{64})"
    rb"\x14bat_digest\x80\x01([0-9a-f]{64})"
    rb"\x18bat_campaign" + _TEXT + rb"\x12bat_cause@([0-9a-f]{32})"
    rb"\x16bat_ordinal([\x02-\x24]\d{1,18})"
    rb"\x12bat_logic" + _TEXT + rb"(?:\x12bat_round([\x02-\x24]\d{1,18}))?"
    rb"(?:\x16traceparentn([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}))?"
    rb"(?:\x0ebat_cut" + VARINT + rb"(\{[ -~]*\}))?"
    rb"(?:\x10bat_cost" + VARINT + rb"(\{(?:" + _COST + rb"(?:," + _COST + rb")*)?\}))?"
    rb"\x00"
)
_LEAST = 13  # headers that are always there


class _Texts:
    """Bytes -> str, for what comes again and again."""

    def __init__(self) -> None:
        self.known: dict[bytes, str] = {}
        self.last = (b"", "")

    def of(self, raw: bytes) -> str:
        """A text with its length byte. Raises ValueError where it has another length."""
        if raw[0] != 2 * len(raw) - 2:
            raise ValueError("a text is not as long as is said")
        return self._keep(raw, raw[1:].decode("ascii"))

    def moment(self, raw: bytes) -> str:
        """A time. Raises ValueError where there is no such moment."""
        text = raw.decode("ascii")
        datetime.fromisoformat(text)
        self.last = (raw, text)
        return text

    def plain(self, raw: bytes) -> str:
        """A text without its length byte."""
        return self._keep(raw, raw.decode("ascii"))

    def _keep(self, raw: bytes, text: str) -> str:
        if len(self.known) > 4096:
            self.known.clear()
        self.known[raw] = text
        return text


_KNOWN = _Texts()


def matched(found: re.Match[bytes], topic: str, partition: int, offset: int, key: bytes, value: bytes) -> Line | None:
    """The line of an envelope; None where a length is not the one that is said, or the moment none that there is."""
    (
        count,
        id_,
        source,
        type_,
        moment,
        subject,
        schema,
        digest,
        campaign,
        cause,
        number,
        logic,
        round_,
        trace,
        cut_size,
        cut,
        cost_size,
        cost,
    ) = found.groups()
    more = 0 if trace is None else 1
    of_round = cut_text = None
    if round_ is not None:
        more += 1
        if round_[0] != 2 * len(round_) - 2:
            return None
        of_round = int(round_[1:])
    if cut is not None:
        more += 1
        if zigzag(cut_size) != len(cut):
            return None
        cut_text = cut.decode()
    if cost is not None:
        more += 1
        if zigzag(cost_size) != len(cost):
            return None
    if count[0] != 2 * (_LEAST + more) or subject[0] != 2 * len(subject) - 2 or number[0] != 2 * len(number) - 2:
        return None
    known = _KNOWN.known
    try:
        return Line(
            topic,
            partition,
            offset,
            key,
            value,
            id_.decode(),
            known.get(source) or _KNOWN.of(source),
            known.get(type_) or _KNOWN.of(type_),
            _KNOWN.last[1] if moment == _KNOWN.last[0] else _KNOWN.moment(moment),
            subject[1:].decode(),
            known.get(schema) or _KNOWN.plain(schema),
            digest.decode(),
            known.get(campaign) or _KNOWN.of(campaign),
            cause.decode(),
            int(number[1:]),
            known.get(logic) or _KNOWN.of(logic),
            of_round,
            cut_text,
        )
    except ValueError:
        return None


_MOMENT = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z").fullmatch
_MOMENTS: dict[bytes, str] = {}  # of late: one transaction's are the same in all its partitions
_MOST_MOMENTS = 1024
_END = re.compile(
    rb"(?:\x0ebat_cut" + VARINT + rb"(\{[ -~]*\}))?"
    rb"(?:\x10bat_cost" + VARINT + rb"(\{(?:" + _COST + rb"(?:," + _COST + rb")*)?\}))?"
    rb"\x00"
).match
_ORDINAL = b"\x16bat_ordinal"
_TRACE = 55
_HEX = b"0123456789abcdef"


class Form:
    """What the envelopes of one type, writer, campaign and round have in common, byte for byte, in one partition.

    `end` is where the envelope ended that `line` gave last.
    """

    __slots__ = ("_after", "_like", "_moment", "_optional", "_same", "_size", "_tail", "_text", "_unpack", "end")

    def __init__(self, found: re.Match[bytes], line: Line) -> None:
        """Of an envelope that was matched and has a trace, and its line."""
        data, begin = found.string, found.start()
        same, sizes = [], []
        for number in (2, 5, 6, 8, 10):  # id, time, subject, digest, cause
            start, end = found.span(number)
            if number == 6:
                start += 1  # the byte that says how long it is
            same.append(data[begin:start])
            sizes.append(f"{start - begin}s{end - start}s")
            begin = end
        parts = Struct(f"{''.join(sizes)}{len(_ORDINAL)}s")
        self._unpack, self._size, self._same = parts.unpack_from, parts.size, (*same, _ORDINAL)
        self._after = data[found.end(11) : found.start(14)]  # between ordinal and trace
        self._optional = (found[16] is not None, found[18] is not None)
        self._tail, self._text = data[found.end(14) : found.end()], line.cut_text
        self._moment = (found[5], line.moment)
        self._like = line
        self.end = found.end()

    def line(self, data: bytes, at: int, offset: int, key: bytes, value: bytes) -> Line | None:
        """The line of an envelope that begins there; None where it is not of this form. Raises IndexError beyond the end."""
        try:
            same0, id_, same1, moment, same2, subject, same3, digest, same4, cause, same5 = self._unpack(data, at)
        except StructError:
            return None
        at += self._size
        size = data[at]
        after = at + 1 + (size >> 1)
        ordinal, trace = data[at + 1 : after], after + len(self._after)
        end = trace + _TRACE
        if (
            (same0, same1, same2, same3, same4, same5) != self._same
            or not data.startswith(self._after, after)
            or size & 1
            or not 2 <= size <= 36
            or not ordinal.isdigit()
            or not data[trace:end].isascii()
            or (id_ + digest + cause).translate(None, _HEX)
            or not (data.startswith(self._tail, end) or self._ends(data, end))
            or not (moment == self._moment[0] or self._moves(moment))
            or not subject.isascii()
        ):
            return None
        self.end = end + len(self._tail)
        like = self._like
        return Line(
            like.topic,
            like.partition,
            offset,
            key,
            value,
            id_.decode(),
            like.source,
            like.type,
            self._moment[1],
            subject.decode(),
            like.schema_digest,
            digest.decode(),
            like.campaign,
            cause.decode(),
            int(ordinal),
            like.logic,
            like.round,
            self._text,
        )

    def _ends(self, data: bytes, at: int) -> bool:
        """Whether cut and cost stand there as they have to, if they differ from the last envelope's."""
        found = _END(data, at)
        if found is None:
            return False
        cut_size, cut, cost_size, cost = found.groups()
        if (cut is not None, cost is not None) != self._optional:
            return False
        if cut is not None and zigzag(cut_size) != len(cut):
            return False
        if cost is not None and zigzag(cost_size) != len(cost):
            return False
        self._tail, self._text = found[0], None if cut is None else cut.decode()
        return True

    def _moves(self, raw: bytes) -> bool:
        """Whether it is a moment, if it is not the last envelope's."""
        text = _MOMENTS.get(raw)
        if text is None:
            if _MOMENT(raw) is None:
                return False
            text = raw.decode()
            try:
                datetime.fromisoformat(text)
            except ValueError:
                return False
            if len(_MOMENTS) >= _MOST_MOMENTS:
                _MOMENTS.clear()
            _MOMENTS[raw] = text
        self._moment = (raw, text)
        return True


_MOST_FORMS = 6


class Forms:
    """The forms met lately in one file, that of the last record first. `end` is as in Form."""

    def __init__(self, topic: str, partition: int) -> None:
        self._where = (topic, partition)
        self._forms: list[Form] = []
        self.end = 0

    def line(self, data: bytes, at: int, offset: int, key: bytes, value: bytes) -> Line | None:
        """The line of an envelope that begins there; None where it has to be decoded. Raises IndexError beyond the end."""
        for number, form in enumerate(self._forms):
            line = form.line(data, at, offset, key, value)
            if line is not None:
                if number:
                    self._forms.insert(0, self._forms.pop(number))
                self.end = form.end
                return line
        found = ENVELOPE.match(data, at)
        line = None if found is None else matched(found, *self._where, offset, key, value)
        if line is not None and found is not None:
            self.end = found.end()
            if found[14] is not None:
                self._forms[_MOST_FORMS - 1 :] = []
                self._forms.insert(0, Form(found, line))
        return line


def zigzag(raw: bytes) -> int:
    """A number as Avro has it."""
    if len(raw) == 1:
        return (raw[0] >> 1) ^ -(raw[0] & 1)
    value = shift = 0
    for byte in raw:
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1)
