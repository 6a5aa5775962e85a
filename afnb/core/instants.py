"""``Instant``: one moment of an event log, exact to the nanosecond, with the offset it was written in.

Python's ``datetime`` stops at microseconds and at year 1, and an event log needs neither limit. The
accepted text is RFC 3339, read as the logs' own writer reads it: any one ASCII character between date
and time, ``Z`` or an offset of at most 23:59, and second 60 only where a leap second can stand (the
last second of a month, UTC), which reads as the nanosecond before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from afnb.errors import InputError, ParameterError

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[\x00-\x7f](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII | re.DOTALL,
)
_SECOND = 1_000_000_000
_DAY = 86_400
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
_DAYS_400 = 146_097
_EPOCH_DAY = 719_162  # days from 0001-01-01 to 1970-01-01


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A moment: nanoseconds since 1970-01-01T00:00:00Z, and how it was written.

    Parameters
    ----------
    ns
        Nanoseconds since the epoch in UTC, of any size that falls in the years 0000 to 9999.
    offset_s
        The offset from UTC in seconds that it was written with. It takes no part in comparison.
    text
        The text it was read from, if it was read; it takes no part in comparison.

    Examples
    --------
    >>> t = Instant.parse("2026-07-09 14:00:00.120+02:00")
    >>> t.ns, str(t), str(t.utc())
    (1783598400120000000, '2026-07-09T14:00:00.12+02:00', '2026-07-09T12:00:00.12Z')
    >>> t == Instant.parse("2026-07-09T12:00:00.12Z")
    True
    """

    ns: int
    offset_s: int = field(default=0, compare=False)
    text: str | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if abs(self.offset_s) >= _DAY or self.offset_s % 60:
            raise ParameterError(
                f"offset of {self.offset_s} s: expected whole minutes, less than 24 hours either way"
            )
        if not 0 <= _civil(self.ns // _SECOND + self.offset_s)[0] <= 9999:
            raise ParameterError(f"{self.ns} ns since 1970 is outside the years 0000 to 9999")

    @classmethod
    def parse(cls, text: str) -> Instant:
        """Read RFC 3339 text; digits beyond the ninth of the fraction are left to ``text``.

        Raises
        ------
        InputError
            Not RFC 3339, no such day or hour, no offset, or a second 60 that no month ends with.
        """
        match = _RFC3339.fullmatch(text)
        if match is None:
            raise InputError(
                f"{_shown(text)} is no RFC 3339 time with an offset; "
                "expected one like 2026-07-09T12:00:00.123456789Z"
            )
        year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
        fraction, sign, off_h, off_m = match.groups()[6:]
        nanos = int(fraction[:9].ljust(9, "0")) if fraction else 0
        offset = 0 if sign is None else (int(off_h) * 60 + int(off_m)) * (60 if sign == "+" else -60)
        bad = _out_of_range(year, month, day, hour, minute, second, off_h, off_m)
        if bad is None:
            leap = second == 60
            if leap:
                second, nanos = 59, _SECOND - 1
            seconds = _days(year, month, day) * _DAY + hour * 3600 + minute * 60 + second - offset
            if not leap or _ends_a_month(seconds):
                return cls(seconds * _SECOND + nanos, offset, text)
            bad = "the second 60, and no month ends there (UTC)"
        raise InputError(f"{_shown(text)} is no time: it has {bad}")

    @classmethod
    def from_datetime(cls, value: datetime) -> Instant:
        """The instant of an aware ``datetime`` (microseconds are all it has).

        Raises
        ------
        ParameterError
            The datetime has no time zone, or one with seconds in its offset.
        """
        offset = value.utcoffset()
        if offset is None:
            raise ParameterError(f"{value!r} has no time zone; give it one, e.g. datetime.now(timezone.utc)")
        span = value - datetime(1970, 1, 1, tzinfo=UTC)
        micros = (span.days * _DAY + span.seconds) * 1_000_000 + span.microseconds
        return cls(micros * 1000, int(offset.total_seconds()))

    def utc(self) -> Instant:
        """The same moment, written with ``Z``."""
        return Instant(self.ns)

    @property
    def verbatim(self) -> str:
        """The text it was read from, or the normal form if it was not read."""
        return str(self) if self.text is None else self.text

    def __str__(self) -> str:
        seconds, nanos = divmod(self.ns, _SECOND)
        year, month, day, rest = _civil(seconds + self.offset_s)
        fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
        zone = "Z"
        if self.offset_s:
            hours, minutes = divmod(abs(self.offset_s) // 60, 60)
            zone = f"{'-' if self.offset_s < 0 else '+'}{hours:02d}:{minutes:02d}"
        clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
        return f"{year:04d}-{month:02d}-{day:02d}T{clock}{fraction}{zone}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _month_days(year: int, month: int) -> int:
    return 29 if month == 2 and _is_leap(year) else _MONTH_DAYS[month - 1]


def _out_of_range(
    year: int, month: int, day: int, hour: int, minute: int, second: int, off_h: str | None, off_m: str | None
) -> str | None:
    if not 1 <= month <= 12:
        return f"the month {month:02d}"
    if not 1 <= day <= _month_days(year, month):
        return f"the day {day:02d} in month {month:02d}"
    for name, value, most in (("hour", hour, 23), ("minute", minute, 59), ("second", second, 60)):
        if value > most:
            return f"the {name} {value:02d}"
    if off_h is not None and off_m is not None and (int(off_h) > 23 or int(off_m) > 59):
        return f"the offset {off_h}:{off_m}"
    return None


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar, year 0 included."""
    before = year - 1
    days = 365 * before + before // 4 - before // 100 + before // 400
    return days + _BEFORE_MONTH[month - 1] + (month > 2 and _is_leap(year)) + day - 1 - _EPOCH_DAY


def _civil(seconds: int) -> tuple[int, int, int, int]:
    """Year, month, day and second of the day of a count of seconds since 1970."""
    days, rest = divmod(seconds, _DAY)
    cycles, left = divmod(days + _EPOCH_DAY, _DAYS_400)  # from 0001-01-01, in spans of 400 years
    year = 400 * cycles + left // 366 + 1
    while _days(year + 1, 1, 1) <= days:  # at most twice: 366 days is one day too long for most years
        year += 1
    left = days - _days(year, 1, 1)
    month = 12
    while (first := _BEFORE_MONTH[month - 1] + (month > 2 and _is_leap(year))) > left:
        month -= 1
    return year, month, left - first + 1, rest


def _ends_a_month(seconds: int) -> bool:
    year, month, day, rest = _civil(seconds)
    return rest == _DAY - 1 and day == _month_days(year, month)
