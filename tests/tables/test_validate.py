"""The vectorised validator decides as the guard of single logs does, on every log."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from afnb.core import events as ev
from afnb.core import shape
from afnb.core.eventlog import EventLog
from afnb.core.instants import Instant
from afnb.core.shape import cursor_refusal, first_violation
from afnb.errors import ParameterError
from afnb.tables.build import build
from afnb.tables.events import event_problems, events_table, with_problems
from afnb.tables.validate import validate
from afnb.testing import logs

from .helpers import one_table, read_vector

Vectors = Callable[[str], list[dict[str, Any]]]
COLUMNS = ["run_id", "index", "seq", "rule", "level", "message"]


def expected(log: Sequence[ev.Envelope]) -> dict[str, Any] | None:
    """What the single-log code says of a log, as a row."""
    found = first_violation(log)
    if found is None:
        return None
    row = {name: getattr(found, name) for name in COLUMNS}
    return {**row, "cursor_refuses": cursor_refusal(log) is not None}


def found_in(report: Any) -> list[dict[str, Any]]:
    return report.violations.select([*COLUMNS, "cursor_refuses"]).to_pylist()


def test_every_vector_is_decided_as_by_the_guard(vectors: Vectors) -> None:
    rows = [(v, log) for v in vectors("validator") if (log := read_vector(v)) is not None]
    report = validate(one_table(log for _, log in rows), one_run_per_file=True)
    ours = {row["file"]: row for row in report.violations.to_pylist()}
    named = 0
    for number, (vector, log) in enumerate(rows):
        mine, single = ours.get(str(number)), expected(log)
        assert (mine is None) == (single is None), vector["mutation"]
        if mine is not None and single is not None:
            assert {name: mine[name] for name in single} == single
        theirs = vector["expect"]["validator"]
        if (mine is None) != (theirs == "ok") or (
            mine is not None
            and (mine["index"], shape.RULE[mine["rule"]].reference) != (theirs["index"], theirs["kind"])
        ):
            # The one difference: an abandon that names the dangling write it leaves behind is accepted.
            assert isinstance(log[theirs["index"]].event, ev.RunAbandoned)
            assert log[theirs["index"]].event.unresolved_write is not None
            named += 1
    assert len(rows) > 800
    assert len(ours) > 400
    assert named < 10
    assert report.broken == len(ours)


@settings(max_examples=150)
@given(st.lists(logs.any_logs(), max_size=4))
def test_one_log_a_file(several: list[list[ev.Envelope]]) -> None:
    report = validate(one_table(several), one_run_per_file=True)
    wanted = [row for log in several if log and (row := expected(log)) is not None]
    for row in wanted:
        event(row["rule"])
    assert found_in(report) == wanted
    assert report.ok is (not wanted)
    assert report.runs == sum(bool(log) for log in several)


@settings(max_examples=150)
@given(logs.any_logs(max_size=24))
def test_interleaved_runs_are_checked_each_by_itself(log: list[ev.Envelope]) -> None:
    by_run: dict[str, list[ev.Envelope]] = {}
    for envelope in log:
        by_run.setdefault(envelope.run_id, []).append(envelope)
    report = validate(events_table(EventLog(None, tuple(log))))
    assert found_in(report) == [row for one in by_run.values() if (row := expected(one)) is not None]
    assert (report.runs, report.events) == (len(by_run), len(log))


@settings(max_examples=60)
@given(st.lists(logs.any_logs(), min_size=1, max_size=4), st.data())
def test_chunks_slices_and_dictionaries_change_nothing(
    several: list[list[ev.Envelope]], data: st.DataObject
) -> None:
    renamed = [
        ev.Envelope(f"00000000-0000-4000-8000-{n:012}", e.seq, e.recorded_at, e.event, e.schema_version)
        for n, log in enumerate(several)
        for e in log
    ]
    order = list(range(len(renamed)))
    table = events_table(EventLog(None, tuple(renamed)))
    wanted = found_in(validate(table))
    if len(order) > 1:
        cuts = sorted({0, len(order), *data.draw(st.lists(st.integers(0, len(order)), max_size=3))})
        # Each piece has dictionaries of its own, and a slice's offset is not 0.
        pieces = [events_table(EventLog(None, tuple(renamed[a:b]))) for a, b in itertools.pairwise(cuts)]
        assert found_in(validate(pa.concat_tables(pieces))) == wanted
        assert found_in(validate(pa.concat_tables([table, table]).slice(len(order)))) == wanted
        flat = table.set_column(0, "run_id", table.column("run_id").cast(pa.large_string()))
        assert found_in(validate(flat)) == wanted
    # Interleaving runs keeps each run's own order.
    shuffled = data.draw(st.permutations(order))
    by_run = {n: iter([i for i in order if renamed[i].run_id == renamed[n].run_id]) for n in order}
    first = {renamed[n].run_id: by_run[n] for n in order}
    mixed = [next(first[renamed[n].run_id]) for n in shuffled]
    mixed_rows = found_in(validate(table.take(pa.array(mixed, pa.int64()))))
    assert sorted(mixed_rows, key=lambda row: row["run_id"]) == sorted(wanted, key=lambda row: row["run_id"])


def test_the_largest_seq_has_no_next() -> None:
    head = ev.Envelope(logs.RUN_ID, ev.U64_MAX, Instant(0), ev.RunStarted("h", None))
    again = ev.Envelope(logs.RUN_ID, 0, Instant(0), ev.NodeEntered("n"), 2)
    for log in ([head], [head, again], [again, head, again]):
        assert found_in(validate(events_table(EventLog(None, tuple(log))))) == [expected(log)]


def test_many_runs_in_blocks_and_interleaved() -> None:
    def run(n: int) -> list[ev.Envelope]:
        events: list[ev.Event] = [ev.RunStarted("h", None), ev.ModelCallRequested(1, "r"), ev.RunFailed("x")]
        wrong = n % 7 == 0
        return [
            ev.Envelope(f"00000000-0000-4000-8000-{n:012}", i + (wrong and i == 1), Instant(0), e)
            for i, e in enumerate(events[: 1 + n % 3])
        ]

    several = [run(n) for n in range(3000)]
    one = events_table(EventLog(None, tuple(e for log in several for e in log)))
    wanted = [row for log in several if (row := expected(log)) is not None]
    assert found_in(validate(one)) == wanted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("afnb.tables.validate._BLOCK", 97)
        assert found_in(validate(one)) == wanted
    spread = np.argsort(np.arange(one.num_rows) % 5, kind="stable")
    mixed = one.take(pa.array(spread))
    by_run: dict[str, list[int]] = {}
    for row, run_id in zip(spread.tolist(), mixed.column("run_id").to_pylist(), strict=True):
        by_run.setdefault(run_id, []).append(row)
    flat = [e for log in several for e in log]
    again = [row for rows in by_run.values() if (row := expected([flat[r] for r in rows])) is not None]
    assert found_in(validate(mixed)) == again


def test_an_unreadable_line_counts_at_its_place_in_the_run() -> None:
    head, end = ev.RunStarted("h", None), ev.RunFailed("x")
    fine = EventLog(
        logs.RUN_ID,
        tuple(
            ev.Envelope(logs.RUN_ID, n, Instant(0), e) for n, e in enumerate((head, ev.NodeEntered("n"), end))
        ),
        "a.jsonl",
        (),
        (1, 3, 5),
    )

    def problem(
        line: int, run_id: str | None, level: str = "error", rule: str = "bad_payload"
    ) -> dict[str, Any]:
        row = {"file": "a.jsonl", "line": line, "level": level, "rule": rule}
        return {**row, "message": "no", "run_id": run_id, "seq": 7}

    other = logs.OTHER_RUN_ID
    rows = [problem(2, None), problem(3, logs.RUN_ID, "warning", "no_final_newline"), problem(4, logs.RUN_ID)]
    events = with_problems(
        events_table(fine), build("problems", [*rows, problem(6, other, rule="unknown_kind")])
    )
    report = validate(events)
    assert report.violations.to_pylist() == [
        {
            "run_id": run_id,
            "index": index,
            "seq": 7,
            "rule": rule,
            "level": "cursor",
            "cursor_refuses": True,
            "message": "no",
            "file": "a.jsonl",
            "line": line,
        }
        for run_id, index, rule, line in ((logs.RUN_ID, 2, "bad_payload", 4), (other, 0, "unknown_kind", 6))
    ]
    assert (report.runs, report.errors, report.warnings, report.ok) == (2, 3, 1, False)
    assert event_problems(events).num_rows == 4
    by_file = validate(events, one_run_per_file=True).violations.to_pylist()
    assert [(row["index"], row["line"]) for row in by_file] == [(1, 2)]
    # What was wrong before the unreadable line comes first; what the gap makes wrong after it does not.
    broken = EventLog(fine.id, (fine.envelopes[1], *fine.envelopes[1:]), "a.jsonl", (), (1, 3, 5))
    first = validate(with_problems(events_table(broken), build("problems", rows))).violations.to_pylist()
    assert [(row["index"], row["rule"], row["cursor_refuses"]) for row in first] == [
        (0, "head_not_at_zero", True)
    ]
    gap = EventLog(fine.id, (fine.envelopes[0], fine.envelopes[2]), "a.jsonl", (), (1, 5))
    after = validate(with_problems(events_table(gap), build("problems", rows))).violations.to_pylist()
    assert [(row["index"], row["rule"], row["line"]) for row in after] == [(1, "bad_payload", 4)]


def test_a_kind_of_another_source_is_unknown() -> None:
    table = events_table(EventLog(None, (ev.Envelope(logs.RUN_ID, 0, Instant(0), ev.RunStarted("h", None)),)))
    strange = table.set_column(5, "kind", pa.array(["Started"], pa.large_string()))
    (row,) = validate(strange).violations.to_pylist()
    assert (row["rule"], row["message"]) == ("unknown_kind", "'Started' is none of the 24 kinds of event")


def test_what_is_no_table_of_events_is_refused() -> None:
    with pytest.raises(ParameterError, match="0 columns called 'run_id'"):
        validate(pa.table({"a": [1]}))
    table = events_table([])
    texts = table.set_column(1, "seq", pa.array([], pa.date32()))
    with pytest.raises(ParameterError, match=r"column 'seq' holds date32\[day\], expected uint64"):
        validate(texts)
    empty = validate(table)
    assert (empty.ok, empty.runs, empty.sentence()) == (True, 0, "There are no events in these logs.")


def test_the_card_says_how_many_which_and_what_next() -> None:
    head = ev.Envelope(logs.RUN_ID, 0, Instant(0), ev.RunStarted("h", None))
    stray = ev.Envelope(logs.RUN_ID, 1, Instant(0), ev.ToolCallCompleted(1, None))
    gap = ev.Envelope(f"f{logs.OTHER_RUN_ID[1:]}", 3, Instant(0), ev.RunStarted("<b>", None))
    table = events_table(EventLog(None, (head, stray, gap)))
    report = validate(table)
    text = report.to_text()
    assert "2 of 2 runs are malformed; the replay cursor refuses 1 of them." in text
    assert re.search(r"uncorrelated_completion +takes it +ToolC", text)
    assert re.search(r"head_not_at_zero +refuses", text)
    assert "report.violations.to_pandas()" in text
    assert report.by_rule == {"uncorrelated_completion": 1, "head_not_at_zero": 1}
    document = report.to_json()
    assert (document["afnb"], document["broken"], document["ok"]) == ("validation", 2, False)
    assert len(document["violations"]) == 2
    assert "malformed" in report._repr_html_()
    fine = validate(table.slice(0, 1))
    assert fine.ok
    assert "The run is well formed." in fine.to_text()
