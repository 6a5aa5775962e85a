"""Lines of event logs, good and odd, for the tests of their readers."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import strategies as st

from afnb.core.wire import write_envelope
from afnb.core.wirespec import EVENTS
from afnb.testing import logs

RUN = logs.RUN_ID
KNOWN = sorted(
    {f.name for spec in EVENTS.values() for f in spec.fields} | {"kind", "payload", "event", "run_id"}
)
ODD_VALUES = (
    "-0",
    "1.0",
    "1e2",
    "0",
    "-1",
    "18446744073709551615",
    "18446744073709551616",
    "4294967296",
    "null",
    "true",
    '""',
    '"x"',
    "1e400",
    "1e308",
    "1E+0400",
    "-1e999",
    "1e-400",
    "9" * 320,
    "9" * 320 + ".0",
    "NaN",
    "Infinity",
    "01",
    "1.",
    '"\\ud800"',
    '"\\ud83d\\ude00"',
    '"\\udc00\\ud800"',
    '"\\u0041"',
    '"a\\"b\\\\"',
    '"\\/"',
    '"\t"',
    "[]",
    "{}",
    "[1,[2]]",
    '{"a":1,"a":2}',
    '{"a":"\\ud800","a":2}',
    "[" * 130 + "]" * 130,
    "[" * 120 + "]" * 120,
    '"' + "[" * 200 + '"',
    '"e999,"',
    '"3e999"',
    '"2026-07-09T12:00:00Z"',
    '"read"',
    '{"input_tokens":1,"output_tokens":2}',
    "[3,4]",
    "{} ",
    " 7",
    '["00000000-0000-4000-8000-000000000002",3]',
    '{"run_id":"00000000-0000-4000-8000-000000000002","seq":3}',
    '{"seq":1,"tool":"a"}',
    '{"kind":"steps","limit":1}',
    "\u00e9",
    '"\u00e9\u2028"',
)
TIMES = (
    "2026-07-09T12:00:00Z",
    "2026-07-09t12:00:00z",
    "2026-07-09 12:00:00.5+02:00",
    "2024-02-29T00:00:00Z",
    "2023-02-29T00:00:00Z",
    "2016-12-31T23:59:60Z",
    "2026-06-30T12:00:60Z",
    "1600-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "2026-07-09T12:00:00",
    "2026-07-09T12:00:00.1234567890Z",
    "2026-07-09T24:00:00Z",
    "2026-13-09T12:00:00Z",
    "2026-04-31T12:00:00Z",
    "x",
    "1677-09-21T00:12:43.145224192Z",
    "1677-09-21T00:12:43.145224193Z",
    "2262-04-11T23:47:16.854775807Z",
    "2262-04-11T23:47:16.854775808Z",
    "2026-07-09T12:00:00+24:00",
    "2026-07-09T12:00:00-00:00",
    "1700-02-28T23:59:59.999999999+23:59",
    "2026-07-09T12:00:00.Z",
    "2026-7-09T12:00:00Z",
    "0000-01-01T00:00:00Z",
    '2026-07-09\\"12:00:00Z',
    "2026-07-09T12:00:00.5 Z",
)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[-+.\w]+|[{}\[\],:]')


def tokens(text: str) -> list[str]:
    """The tokens of a JSON text."""
    return _TOKEN.findall(text)


@st.composite
def odd_lines(draw: st.DrawFn) -> bytes:
    """A line that was an envelope, changed in some ways that matter to a reader; often still one."""
    text = write_envelope(draw(logs.any_envelopes()))
    style = draw(st.sampled_from(("compact", "compact", "python", "ascii", "sorted", "tokens")))
    if style in ("python", "ascii", "sorted"):
        value = json.loads(text)
        text = json.dumps(value, ensure_ascii=style == "ascii", sort_keys=style == "sorted")
        if style == "sorted":
            text = text.replace(", ", ",").replace(": ", ":")
    for _ in range(draw(st.sampled_from((0, 1, 1, 1, 2, 3)))):
        text = draw(_changed(text))
    if style == "tokens":
        spaces = st.sampled_from(("", "", "", " ", "\t", "  ", "\r"))
        text = "".join(draw(spaces) + token for token in tokens(text))
    data = text.encode("utf-8", "surrogatepass").replace(b"\n", b" ")
    if draw(st.sampled_from((False,) * 9 + (True,))) and data:
        at = draw(st.integers(0, len(data) - 1))
        data = (
            data[:at]
            + bytes([draw(st.sampled_from((0xFF, 0xED, 0x80, 0x22, 0x5B, 0x7D, 0x00, 0x31, 0x2D)))])
            + data[at + 1 :]
        )
    return data.replace(b"\n", b" ")


@st.composite
def _changed(draw: st.DrawFn, text: str) -> str:
    found = tokens(text)
    if not found:
        return text
    way = draw(
        st.sampled_from(("value", "value", "member", "member", "drop", "time", "cut", "wrap", "escape"))
    )
    at = draw(st.integers(0, len(found) - 1))
    if way == "value":
        places = [i for i, t in enumerate(found) if i and found[i - 1] == ":" and t not in "{["]
        if places:
            found[draw(st.sampled_from(places))] = draw(st.sampled_from(ODD_VALUES))
    elif way == "member":
        places = [i for i, t in enumerate(found) if t == "{"]
        if places:
            place = draw(st.sampled_from(places))
            key = json.dumps(draw(st.sampled_from((*KNOWN, "x", "", "a b"))))
            comma = "," if found[place + 1 : place + 2] != ["}"] else ""
            found.insert(place + 1, f"{key}:{draw(st.sampled_from(ODD_VALUES))}{comma}")
    elif way == "drop":
        del found[at]
    elif way == "time":
        found = [f'"{draw(st.sampled_from(TIMES))}"' if re.match(r'"\d{4}-', t) else t for t in found]
    elif way == "cut":
        return text[: draw(st.integers(0, len(text)))]
    elif way == "wrap":
        return draw(
            st.sampled_from(
                (
                    text + "x",
                    text + " ",
                    text + text,
                    text + " {}",
                    "[" + text + "]",
                    " " + text,
                    "\ufeff" + text,
                )
            )
        )
    elif way == "escape":
        words = [i for i, t in enumerate(found) if len(t) > 2 and t[0] == '"' and t[1].isalpha()]
        if words:
            place = draw(st.sampled_from(words))
            found[place] = f'"\\u{ord(found[place][1]):04x}{found[place][2:]}'
    return "".join(found)


def good_line(seq: int = 0, **more: Any) -> bytes:
    """A plain line, to stand between others."""
    document = {
        "run_id": RUN,
        "seq": seq,
        "schema_version": 1,
        "recorded_at": "2026-07-09T12:00:00Z",
        "event": {"kind": "RandomObserved", "payload": {"value": seq}},
    }
    return json.dumps(document | more, separators=(",", ":")).encode()
