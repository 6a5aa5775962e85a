"""Event streams: framing at CR and LF alone, pieces of any size, bytes kept."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core.sse import Decoder, Event, LineDecoder, parse, parse_lines, serialise, serialise_lines

_TOKENS = [
    b"data: a", b"data:", b"data", b"event: e", b"id: 1", b"retry: 5", b": c", b"x: y",
    b"\n", b"\n\n", b"\r", b"\r\n",
    b"\xef\xbb\xbf", "\u2028\u2029\u0085\u000b\u000c\x1c".encode(), "é😀".encode(), b"\xff", b" ", b"",
]  # fmt: skip
_streams = st.lists(st.sampled_from(_TOKENS), max_size=16).map(b"".join)


def in_pieces(decoder: Decoder | LineDecoder, data: bytes, cuts: list[int]) -> tuple[list[Event], bytes]:
    edges = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    events = [e for a, b in itertools.pairwise(edges) for e in decoder.feed(data[a:b])]
    return events + decoder.close(), decoder.rest


@settings(max_examples=300, deadline=None)
@given(data=_streams, cuts=st.lists(st.integers(0, 60), max_size=12))
def test_events_do_not_depend_on_where_pieces_end_and_no_byte_is_lost(data: bytes, cuts: list[int]) -> None:
    for kind in (Decoder, LineDecoder):
        whole, rest = in_pieces(kind(), data, [])
        assert in_pieces(kind(), data, cuts) == (whole, rest)
        assert b"".join(e.raw for e in whole) + rest == data
        assert whole == (parse(data) if kind is Decoder else parse_lines(data))


@settings(max_examples=100, deadline=None)
@given(
    fields=st.lists(
        st.tuples(
            st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=8),
            st.none()
            | st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=4),
        ),
        max_size=4,
    )
)
def test_what_is_written_is_read_back(fields: list[tuple[str, str | None]]) -> None:
    events = [Event(data, event=name) for data, name in fields]
    read = parse(serialise(events))
    assert [(e.data, e.event) for e in read] == [(e.data, e.event) for e in events]
    assert serialise(read) == serialise(events)


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c"])
def test_only_cr_and_lf_end_a_line(odd: str) -> None:
    data = f'{{"t":"a{odd}b"}}'
    assert [e.data for e in parse(f"data: {data}\n\n".encode())] == [data]
    assert [e.data for e in parse_lines(f"{data}\n{data}\r\n".encode())] == [data, data]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_all_three_line_ends(end: bytes) -> None:
    lines = [b"event: x", b"data: 1", b"data:2", b"id: 7", b"retry: 3", b"", b"data: 3", b"", b""]
    events = parse(end.join(lines))
    assert [(e.data, e.event, e.id, e.retry) for e in events] == [
        ("1\n2", "x", "7", 3),
        ("3", None, None, None),
    ]
    assert all(e.terminated for e in events)


def test_comments_unknown_fields_and_nameless_blocks_give_no_event() -> None:
    events = parse(b"\xef\xbb\xbf: hi\n\nevent: only\n\nfoo: bar\nretry: soon\nid: a\0b\ndata\n\n")
    assert [(e.data, e.event, e.id, e.retry) for e in events] == [("", None, None, None)]
    assert events[0].raw.startswith(b"\xef\xbb\xbf: hi")


def test_an_unterminated_last_event_is_told() -> None:
    events = parse(b"data: 1\n\ndata: 2\n")
    assert [(e.data, e.terminated) for e in events] == [("1", True), ("2", False)]
    assert serialise(events).endswith(b"data: 2\n\n\n")
    assert [(e.data, e.terminated) for e in parse_lines(b'{"a":1}\n{"b"')] == [
        ('{"a":1}', True),
        ('{"b"', False),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 4096])
def test_characters_cut_in_two_stay_whole(size: int) -> None:
    data = "data: 日本 😀 é\n\n".encode()
    decoder = Decoder()
    events = [e for i in range(0, len(data), size) for e in decoder.feed(data[i : i + size])]
    assert [(e.data, e.invalid_at) for e in events] == [("日本 😀 é", None)]


def test_bytes_that_are_not_utf_8_are_kept_and_their_place_is_told() -> None:
    data = b"data: ok\n\ndata: a\xffb\n\n"
    events = parse(data)
    assert [e.invalid_at for e in events] == [None, data.index(b"\xff")]
    assert serialise([Event(events[1].data)]) == b"data: a\xffb\n\n"
    lines = b"ok\n\r\n\xe2\x82\n"
    assert [e.invalid_at for e in parse_lines(lines)] == [None, lines.index(b"\xe2")]


def test_an_event_comes_as_soon_as_its_bytes_are_there() -> None:
    decoder = Decoder()
    assert [len(decoder.feed(b)) for b in (b"data: 1\n", b"\n", b"data: 2\r\n\r", b"\n")] == [0, 1, 0, 1]
    assert decoder.rest == b""


def test_lines_are_written_with_their_ends() -> None:
    assert serialise_lines(parse_lines(b'{"a":1}\r\n\r\n{"b":2}')) == b'{"a":1}\r\n\r\n{"b":2}\n'
    assert serialise_lines([Event("1"), Event("2")]) == b"1\n2\n"
