"""The wire form: the reference's bytes, its refusals, and exactness where it is lossy."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from afnb.core import events as ev
from afnb.core.instants import Instant
from afnb.core.jsonvalue import MISSING
from afnb.core.wire import parse_array, parse_envelope, write_envelope, write_lines
from afnb.core.wirekinds import normal_run_id
from afnb.core.wirespec import EVENTS
from afnb.errors import EventError, InputError, ParameterError

Vectors = Callable[[str], list[dict[str, Any]]]

RUN = "00000000-0000-4000-8000-000000000001"
# Where canonical bytes differ on purpose: integers beyond 64 bits are written exactly, and floats are
# correctly rounded when read. The whole expected line is given, so nothing else may differ.
EXACT = {
    ("wire", "big_int_value"): "[18446744073709551615,18446744073709551616,-9223372036854775808,"
    "-9223372036854775809,1e+16,0.00001,-0.0,-0.0,1.0,100000000000000000000]",
    ("wire", "float_digits"): "[0.1,0.30000000000000004,2.2250738585072014e-308,"
    "1.7976931348623157e+308,123456789.12345679,5e-324,8.41e+21,9007199254740992.0]",
}
CATEGORIES = ("parse", "valid-agent", "valid-graph", "wire")


def line(payload: str, kind: str = "RunStarted", seq: str = "0", at: str = '"2026-07-09T12:00:00Z"') -> str:
    return (
        f'{{"run_id":"{RUN}","seq":{seq},"schema_version":1,"recorded_at":{at},'
        f'"event":{{"kind":"{kind}","payload":{payload}}}}}'
    )


def started(value: str) -> str:
    return line(f'{{"agent_def_hash":"h","input":{value}}}')


def input_of(text: str | bytes) -> Any:
    event = parse_envelope(text).event
    assert isinstance(event, ev.RunStarted)
    return event.input


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_references_bytes_and_refusals(vectors: Vectors, category: str) -> None:
    rows = [v for v in vectors("wire") if v["category"] == category]
    named = {key for key in EXACT if key[0] == category}
    met = set()
    for vector in rows:
        key = (category, vector["mutation"])
        if vector["parse"] != "ok":
            with pytest.raises(EventError) as caught:
                parse_array(vector["raw"])
            assert caught.value.position == vector["parse"]["index"], key
            continue
        log = parse_array(vector["raw"])
        ours = write_lines(log, canonical=True)
        if key in named:
            met.add(key)
            assert ours == [started(EXACT[key]).replace('"h"', '"a"')]
        else:
            assert ours == vector["canonical"], key
        assert [parse_envelope(text) for text in write_lines(log)] == log
    assert rows
    assert met == named


def test_every_wire_category_is_covered(vectors: Vectors) -> None:
    assert {v["category"] for v in vectors("wire")} == set(CATEGORIES)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2**64),
        ("-9223372036854775809", -(2**63) - 1),
        ("1" * 40, int("1" * 40)),
        ("1.0", 1.0),
        ("0.1234567890123456789", 0.12345678901234568),
        ("9007199254740993.0", 9007199254740992.0),
        ("1e308", 1e308),
        ('{"x":1,"x":2}', {"x": 2}),
        ('"\\ud83d\\ude00"', "😀"),
        ('"\\u0000"', "\0"),
        ('"\u2028\u0085"', "\u2028\u0085"),
    ],
)
def test_values_are_exact(value: str, read: Any) -> None:
    got = input_of(started(value))
    assert (type(got), got) == (type(read), read)
    for canonical in (False, True):
        assert input_of(write_envelope(parse_envelope(started(value)), canonical=canonical)) == read


def test_integers_of_any_size_are_exact() -> None:
    value = 7 * (10**9000 - 1) // 9
    envelope = parse_envelope(started("7" * 9000))
    assert envelope.event == ev.RunStarted("h", value)
    assert write_envelope(envelope) == write_envelope(envelope, canonical=True) == started("7" * 9000)


def test_minus_zero_keeps_its_sign_and_is_a_float() -> None:
    got = input_of(started("[-0,-0.0]"))
    assert [str(x) for x in got] == ["-0.0", "-0.0"]
    assert '"input":[-0.0,-0.0]' in write_envelope(parse_envelope(started("[-0,-0.0]")), canonical=True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (started("1e400"), "1e400 is too large"),
        (started("-1e400"), "-1e400 is too large"),
        (started("NaN"), "NaN"),
        (started("Infinity"), "Infinity"),
        (started("-Infinity"), "Infinity"),
        (started('"\\ud800"'), "lone surrogate in the text at event.payload.input"),
        (started('{"a":["\\udc00x"]}'), r"lone surrogate in the text at event.payload.input.a\[0\]"),
        (started('{"\\ud800":1}'), "lone surrogate in the text at a key"),
        (started('"\ud800"'), "lone surrogate at column"),
        (started("[" * 2000 + "]" * 2000), "nested deeper than 127"),
        (started("[" * 125 + "]" * 125), "nested deeper than 127"),
        (started("1,"), "not JSON"),
        (started("01"), "not JSON"),
        (started('"\t"'), "not JSON"),
        (started("1") + "x", "text after the value"),
        ("\ufeff" + started("1"), "byte order mark"),
        ("", "not JSON"),
        ("[]", "array of 0"),
        (
            f'["{RUN}",0,1,"2026-07-09T12:00:00Z",{{"kind":"RunFailed","payload":{{"error":""}}}},1]',
            "array of 6",
        ),
    ],
)
def test_what_cannot_be_held_is_refused_and_said_where(text: str, why: str) -> None:
    with pytest.raises(EventError, match=why) as caught:
        parse_envelope(text, source="runs/a.jsonl", line=7)
    assert caught.value.path == "runs/a.jsonl"
    assert caught.value.line == 7
    assert str(caught.value).startswith("runs/a.jsonl:7")
    assert caught.value.rule == "bad_envelope"
    assert len(str(caught.value)) < 300


def test_nesting_up_to_the_limit_is_read_and_deeper_is_not_written() -> None:
    deep = "[" * 124 + "]" * 124
    envelope = parse_envelope(started(deep))
    assert write_envelope(envelope) == started(deep)
    value: list[Any] = []
    for _ in range(500):
        value = [value]
    for canonical in (False, True):
        with pytest.raises(ParameterError, match="nested"):
            write_envelope(ev.Envelope(RUN, 0, Instant(0), ev.RunCompleted(value)), canonical=canonical)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (started('"\xff"').encode("latin-1"), "not UTF-8: byte 0xff at offset"),
        (started('"ab"').encode()[:-7] + b"\xe2\x82", "not UTF-8"),
        (b"\xef\xbb\xbf" + started("1").encode(), "byte order mark"),
        (started("1").encode("utf-16"), "not UTF-8"),
    ],
)
def test_bytes_that_are_no_utf8_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(EventError, match=why):
        parse_envelope(data)


@pytest.mark.parametrize(
    "at",
    [
        "2026-06-30T23:59:60Z",
        "1600-01-01T00:00:00Z",
        "2300-01-01T00:00:00.000000001+01:00",
        "2026-07-09 12:00:00.1234567890123Z",
    ],
)
def test_times_outside_other_libraries_ranges_are_kept(at: str) -> None:
    envelope = parse_envelope(line('{"error":""}', "RunFailed", at=json.dumps(at)))
    assert at in write_envelope(envelope)
    assert str(Instant.parse(at)) in write_envelope(envelope, canonical=True)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(EventError, match="offset") as caught:
        parse_envelope(line('{"error":""}', "RunFailed", at='"2026-07-09T12:00:00"'))
    assert caught.value.field == "recorded_at"


@pytest.mark.parametrize(
    ("text", "rule", "field"),
    [
        ("7", "bad_envelope", ""),
        (line("{}", seq="-1"), "bad_envelope", "seq"),
        (line("{}", seq="-0"), "bad_envelope", "seq"),
        (line("{}", seq="true"), "bad_envelope", "seq"),
        (line("{}", seq="18446744073709551616"), "bad_envelope", "seq"),
        (line("{}", "runStarted"), "unknown_kind", "event.kind"),
        (line("{}", "RunStarted"), "bad_payload", "event.payload.agent_def_hash"),
        (line("null", "RunAbandoned"), "bad_payload", "event.payload"),
        (line('{"value":1.0}', "RandomObserved"), "bad_payload", "event.payload.value"),
        (line('{"node":"a","node":"b"}', "NodeEntered"), "bad_payload", "event.payload.node"),
        (
            line(
                '{"seq":0,"response":1,"usage":{"input_tokens":4294967296,"output_tokens":0}}',
                "ModelCallCompleted",
            ),
            "bad_payload",
            "event.payload.usage.input_tokens",
        ),
        (
            line('{"agent_def_hash":"h","input":1,"labels":{"a":1}}'),
            "bad_payload",
            "event.payload.labels.a",
        ),
        (
            line(f'{{"budget":{{"kind":"steps","limit":1{"0" * 400}}},"observed":1}}', "BudgetExceeded"),
            "bad_payload",
            "event.payload.budget.limit",
        ),
    ],
)
def test_a_fault_is_placed_exactly(text: str, rule: str, field: str) -> None:
    with pytest.raises(EventError) as caught:
        parse_envelope(text)
    assert (caught.value.rule, caught.value.field) == (rule, field)
    assert field in str(caught.value)


@pytest.mark.parametrize(
    ("array", "position", "line_number"),
    [
        (f"[{started('1')}, 7]", 1, 1),
        (f"[\n{started('1')},\n{started('1e999')}]", 1, 3),
        (f"[{started('1')}", None, 1),
        (f"[{started('1')},]", None, 1),
        (f"[\n\n{started('1')} {started('1')}]", None, 3),
        (f"[{started('1')}] x", None, 1),
        ("{}", None, 1),
        ("", None, 1),
    ],
)
def test_a_fault_in_an_array_names_element_and_line(
    array: str, position: int | None, line_number: int
) -> None:
    with pytest.raises(EventError) as caught:
        parse_array(array)
    assert (caught.value.position, caught.value.line) == (position, line_number)


def test_an_empty_array_is_an_empty_log() -> None:
    assert parse_array(" [ ] ") == []


def test_unknown_keys_survive_at_every_level_and_canonical_drops_them() -> None:
    usage = '{"input_tokens":1,"output_tokens":2,"cached":{"z":1,"a":2}}'
    text = (
        f'{{"run_id":"{RUN}","seq":0,"schema_version":1,"recorded_at":"2026-07-09T12:00:00.000Z","event":'
        f'{{"kind":"ModelCallCompleted","payload":{{"seq":0,"response":{{"b":1,"a":2}},"usage":{usage},"p":[1]}},'
        '"e":null},"span":18446744073709551616}'
    )
    envelope = parse_envelope(text)
    assert write_envelope(envelope) == text
    canonical = write_envelope(envelope, canonical=True)
    assert canonical == (
        f'{{"run_id":"{RUN}","seq":0,"schema_version":1,"recorded_at":"2026-07-09T12:00:00Z","event":'
        '{"kind":"ModelCallCompleted","payload":{"seq":0,"response":{"a":2,"b":1},'
        '"usage":{"input_tokens":1,"output_tokens":2}}}}'
    )


def test_optional_fields_are_left_out_and_the_key_of_a_tool_call_is_not() -> None:
    call = ev.ToolCallRequested(0, "t", None, "read")
    text = write_envelope(ev.Envelope(RUN, 0, Instant(0), call))
    assert '"payload":{"seq":0,"tool":"t","input":null,"effect":"read","idempotency_key":null}' in text
    missing_key = text.replace(',"idempotency_key":null', "")
    assert parse_envelope(missing_key).event == call
    for body, written in ((MISSING, ""), (None, ',"request_body":null'), (0, ',"request_body":0')):
        event = ev.ModelCallRequested(0, "h", body)
        assert f'"request_hash":"h"{written}}}' in write_envelope(ev.Envelope(RUN, 0, Instant(0), event))
    null = line('{"seq":0,"request_hash":"h","request_body":null}', "ModelCallRequested")
    assert parse_envelope(null).event == ev.ModelCallRequested(0, "h")


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (ev.RandomObserved(2**64), "event.payload.value"),
        (ev.RandomObserved(True), "event.payload.value"),
        (ev.BudgetExceeded(ev.BudgetLimit("steps", float("nan")), 1.0), "event.payload.budget.limit"),
        (ev.RunCompleted(float("inf")), "event.payload.output"),
        (ev.RunCompleted({1: 2}), "event.payload.output"),
        (ev.RunCompleted(MISSING), "event.payload.output"),
        (ev.NodeEntered(7), "event.payload.node"),  # type: ignore[arg-type]
        (ev.NowObserved("2026"), "event.payload.now"),  # type: ignore[arg-type]
        (ev.ToolCallRequested(0, "t", 1, "Write"), "event.payload.effect"),  # type: ignore[arg-type]
        (ev.RunStarted("h", 1, {"a": 1}), "event.payload.labels"),  # type: ignore[dict-item]
        (ev.ToolCallCompleted(0, 1, ev.CallOrigin("no uuid", 1)), "event.payload.deduplicated_from.run_id"),
        (ev.NodeEntered("n", extra={"node": 1}), "'node'"),
    ],
)
def test_what_the_wire_cannot_hold_is_not_written(event: ev.Event, field: str) -> None:
    with pytest.raises(ParameterError, match=field.replace(".", r"\.")):
        write_envelope(ev.Envelope(RUN, 0, Instant(0), event))


def test_run_ids_compare_by_value() -> None:
    forms = [RUN, RUN.upper(), RUN.replace("-", ""), f"{{{RUN}}}", f"urn:uuid:{RUN}"]
    assert {normal_run_id(form) for form in forms} == {RUN}
    for bad in ("", "x", RUN[:-1], f"{{{RUN.replace('-', '')}}}", f" {RUN}"):
        with pytest.raises(ParameterError, match="no UUID"):
            normal_run_id(bad)


def test_the_array_forms_are_read_where_the_reference_reads_them() -> None:
    usage = line('{"seq":0,"response":1,"usage":[3,4]}', "ModelCallCompleted")
    assert parse_envelope(usage).event == ev.ModelCallCompleted(0, 1, ev.TokenUsage(3, 4))
    whole = f'["{RUN}",0,1,"2026-07-09T12:00:00Z",["NodeEntered",{{"node":"n"}}]]'
    assert parse_envelope(whole).event == ev.NodeEntered("n")
    with pytest.raises(EventError):
        parse_envelope(line('["n"]', "NodeEntered"))


def test_errors_are_input_errors_and_pickle() -> None:
    with pytest.raises(InputError) as caught:
        parse_envelope("{", source="x", line=2)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.rule, again.line) == (str(caught.value), "bad_envelope", 2)
    assert set(EVENTS) >= {"RunStarted", "FoldConverged"}
