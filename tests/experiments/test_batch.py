"""Attribution over many failing runs: verdicts, rows for what goes wrong, one budget, one error rate."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import afnb
from afnb.causal.ebh import e_bh
from afnb.core.page_text import render_text
from afnb.errors import InputError, ParameterError
from afnb.experiments.batch_run import shape
from afnb.experiments.batch_task import Terms, agent_for
from afnb.experiments.batch_workers import Shares
from afnb.experiments.budget import Budget
from afnb.experiments.pairs import BatchPair
from afnb.experiments.purse import Purse
from afnb.tables.schemas import volatile

sys.path.insert(0, str(Path(__file__).parent))
from many import AGENT, Case, batch, folder, pair, upstream

MIXED = [
    Case(0, "policy"),
    Case(1, "skip", right=0.9, wrong=0.1),
    Case(2, "style", right=0.0),
    Case(3, "same"),
    Case(4, "policy", turns=6, at=1),
]


def states(found: afnb.Batch) -> dict[str, str]:
    return {row["pair"]: row["state"] for row in found.rows()}


def steady(table: pa.Table, name: str) -> pa.Table:
    """The table without what may differ between runs that are otherwise the same."""
    return table.drop_columns(list(volatile(name)))


def same_tables(one: afnb.Batch, other: afnb.Batch) -> None:
    for name in ("pairs", "experiments", "replays", "attributions"):
        assert steady(getattr(one, name), name).equals(steady(getattr(other, name), name)), name
    assert one.cards() == other.cards()


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory.mktemp("cases"), MIXED)


@pytest.fixture(scope="module")
def found(cases: Path) -> afnb.Batch:
    return batch(cases, n_jobs=1)


def test_each_pair_gets_the_verdict_that_was_planted(found: afnb.Batch) -> None:
    assert states(found) == {
        "case-0": "repair",
        "case-1": "repair",
        "case-2": "no_cause",
        "case-3": "untested",
        "case-4": "repair",
    }
    rows = {row["pair"]: row for row in found.rows()}
    assert rows["case-0"]["origination"] == [4]
    assert rows["case-0"]["deed"] == "called policy with another category"
    assert rows["case-1"]["deed"] == "called escalate instead of verify"
    assert rows["case-4"]["origination"] == [2]
    assert rows["case-2"]["deed"] is None
    assert rows["case-3"]["stage"] == "diff"
    assert (rows["case-0"]["patch_recovered"], rows["case-0"]["control_recovered"]) == (3, 0)
    assert all(row["faithful"] for row in rows.values() if row["stage"] == "replays")
    assert found.stopped is None


def test_the_tables_belong_together(found: afnb.Batch) -> None:
    names = set(found.pairs.column("pair").to_pylist())
    assert set(found.experiments.column("pair").to_pylist()) <= names
    experiments = set(found.experiments.column("experiment").to_pylist())
    assert len(experiments) == found.experiments.num_rows
    assert set(found.replays.column("experiment").to_pylist()) <= experiments
    assert found.attributions.column("attribution").to_pylist() == list(
        found.pairs.column("pair").to_pylist()
    )
    used = [bool(used) for used in found.replays.column("used").to_pylist()]
    assert sum(used) == sum(found.experiments.column("replays_used").to_pylist())


def test_the_order_of_workers_changes_nothing(cases: Path, found: afnb.Batch) -> None:
    same_tables(found, batch(cases, n_jobs=6))


def test_a_pair_alone_comes_to_the_same(cases: Path, found: afnb.Batch) -> None:
    row = next(row for row in found.rows() if row["pair"] == "case-1")
    alone = afnb.attribute(
        cases / "case-1" / "bad.json",
        cases / "case-1" / "good.json",
        agent=AGENT,
        upstream=upstream(),
        oracle=__import__("many").paid,
        allow_tools=["look", "policy", "verify", "escalate"],
        seed=row["seed"],
        progress=False,
    )
    assert alone.row()["origination"] == row["origination"]
    assert alone.replays_used == row["replays_used"]
    code = found.card("case-1").parts[-1]
    assert f"seed={row['seed']}" in render_text(afnb.core.page.Page("", None, (code,)))


def test_one_bad_pair_is_one_row(cases: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn.json"
    torn.write_text('{"exchanges": [')
    good = cases / "case-0" / "good.json"
    found = batch(
        [
            {"name": "fine", "bad": cases / "case-0" / "bad.json", "good": good},
            {"name": "torn", "bad": torn, "good": good},
            {"name": "missing", "bad": tmp_path / "none.json", "good": good},
            {"name": "lonely", "bad": good},
            {"name": "nothing", "good": good},
            {"name": "one of two", "bad": cases / "case-0" / "bad.json", "good": [torn, good]},
        ]
    )
    assert states(found) == {
        "fine": "repair",
        "torn": "error",
        "missing": "error",
        "lonely": "error",
        "nothing": "error",
        "one of two": "repair",
    }
    assert found.errors.num_rows == 4
    assert "torn.json" in found.reasons["torn"]
    assert "no such file" in found.reasons["missing"]
    assert "no good run" in found.reasons["lonely"]
    assert "no failing run" in found.reasons["nothing"]
    row = next(row for row in found.rows() if row["pair"] == "one of two")
    assert (
        any("one reference is left out" in warning for warning in row["warnings"]) or row["references"] == 1
    )


def test_a_pair_whose_replay_is_not_faithful_spends_nothing(cases: Path) -> None:
    """The self-check comes before any live call; a recording of another agent fails it."""

    def other(ctx: Any) -> str:
        text = AGENT(ctx)
        return text + "!" if "8" in str(ctx.seed)[-4:] else text

    good = pair(Case(0))[1]
    broken = pair(Case(0))[0]
    import dataclasses

    shorter = dataclasses.replace(broken, exchanges=broken.exchanges[:-1])
    calls = upstream()
    found = batch([(shorter, good)], upstream=calls)
    assert states(found) == {"bad-0": "unverified"}
    assert "self-check failed" in found.reasons["bad-0"]
    assert found.tally.live_calls == 0
    assert calls.calls == 0
    assert found.replays.num_rows == 0
    del other


def test_several_references_vote_on_the_fork() -> None:
    bad, good = pair(Case(0))
    stray = pair(Case(0, "skip"))[0]
    found = batch([{"name": "p", "bad": bad, "good": [stray, good, pair(Case(0))[1]]}])
    (row,) = found.rows()
    assert (row["references"], row["fork_support"]) == (3, 3)
    assert row["state"] == "repair"


def test_e_values_and_e_bh(found: afnb.Batch) -> None:
    values = found.pairs.column("e_value").to_pylist()
    for row, value in zip(found.rows(), values, strict=True):
        assert (value >= 20) == (row["state"] == "repair")
        assert value == 1.0 or row["state"] == "repair"
    chosen = [i for i, marked in enumerate(found.pairs.column("e_bh").to_pylist()) if marked]
    assert tuple(chosen) == e_bh(values, 0.05)


def test_e_bh_reports_when_nearly_all_have_a_cause(tmp_path: Path) -> None:
    found = batch(folder(tmp_path, [Case(i) for i in range(3)]))
    assert found.tally.repair == 3
    assert found.tally.e_bh == 3


def test_one_budget_for_all_and_the_clear_cases_first(tmp_path: Path) -> None:
    """Noisy pairs come first in the manifest; under a budget the clear ones are decided nonetheless."""
    noisy = [Case(i, right=0.55, wrong=0.45, turns=4) for i in range(3)]
    clear = [Case(i, turns=4) for i in range(3, 6)]
    place = folder(tmp_path / "cases", noisy + clear)
    unlimited = batch(place, budget=Budget(live_calls=None), n_jobs=1)
    enough = sum(
        row["live_calls_spent"] for row in unlimited.rows() if row["pair"] in {"case-3", "case-4", "case-5"}
    )
    few = batch(place, budget=Budget(live_calls=2 * enough), n_jobs=1)
    assert few.tally.live_calls <= 2 * enough
    assert all(states(few)[f"case-{i}"] == "repair" for i in (3, 4, 5))
    assert "budget" in (few.stopped or "")
    left = [row for row in few.rows() if row["state"] == "open"]
    assert left
    assert all("budget" in row["reason"] for row in left)
    assert not any(row["final"] for row in left)


def test_a_budget_is_never_exceeded_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    place = folder(tmp_path / "cases", [Case(i) for i in range(4)])
    whole = batch(place)
    first = batch(place, ledger=tmp_path / "out", budget=Budget(live_calls=20), n_jobs=4)
    assert first.settings["live_calls"] <= 20
    assert first.tally.open
    again = batch(place, ledger=tmp_path / "out", budget=Budget(live_calls=20), n_jobs=4)
    assert again.settings["live_calls"] <= 20
    done = batch(place, ledger=tmp_path / "out", budget=Budget(live_calls=None))
    assert done.stopped is None
    same_tables(whole, done)


def test_a_pair_has_a_budget_of_its_own(tmp_path: Path) -> None:
    place = folder(tmp_path, [Case(0, turns=6, at=1), Case(1)])
    found = batch(place, pair_budget=Budget(live_calls=24), n_jobs=1)
    assert states(found)["case-1"] == "repair"
    assert states(found)["case-0"] == "open"
    assert all(row["live_calls_spent"] <= 24 for row in found.rows())


def test_agents_that_all_fail_alike_stop_the_batch(tmp_path: Path) -> None:
    place = folder(tmp_path, [Case(i) for i in range(9)])
    found = batch(place, agent=afnb.Command(["no-such-program", "{name}"]), n_jobs=1)
    assert found.stopped is not None
    assert "all failed alike" in found.stopped
    assert "no-such-program" in found.stopped
    assert found.tally.error == 5
    assert found.tally.open == 4


def test_tools_that_are_not_allowed_are_named_once_for_all(tmp_path: Path) -> None:
    place = folder(tmp_path, [Case(i) for i in range(7)])
    found = batch(place, allow_tools=[], n_jobs=1)
    assert "allow_tools" in (found.stopped or "")
    assert found.tally.live_calls == 0


def test_own_agents_oracles_and_upstreams(tmp_path: Path) -> None:
    bad, good = pair(Case(0))
    never = afnb.Outcome(lambda run: False)
    found = batch(
        [{"name": "a", "bad": bad, "good": good}, {"name": "b", "bad": bad, "good": good, "oracle": never}]
    )
    assert states(found) == {"a": "repair", "b": "no_cause"}
    found = batch(
        [{"bad": bad, "good": good, "agent": AGENT, "upstream": upstream()}], agent=None, upstream=None
    )
    assert found.tally.repair == 1


def test_words_of_the_pair_in_a_command(tmp_path: Path) -> None:
    argv = ["python", "a.py", "--task={task}", "{name}", "{suite}", '{"x": 1}']
    terms = Terms(
        agent=afnb.Command(argv, env={"T": "{task}"}),
        upstream=None,
        oracle=None,
        consensus=afnb.SequentialConsensus(),
        origin=False,
        allow_tools=(),
        seed=0,
        params=None,
        matching=None,
        folder=str(tmp_path),
        purse=Purse(tmp_path / "purse", Budget()),
        pair_budget=None,
    )
    agent = agent_for(BatchPair("n", "b", (), "t t", (("suite", "s"),)), terms)
    assert list(agent.argv) == ["python", "a.py", "--task=t t", "n", "s", '{"x": 1}']
    assert dict(agent.env) == {"T": "t t"}


def test_no_pairs_is_a_batch_without_rows() -> None:
    found = batch([])
    assert found.pairs.num_rows == 0
    assert found.tally.pairs == 0
    assert "No pairs" in found.to_text()


def test_arguments_are_checked_before_anything_else(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="n_jobs=0"):
        batch([], n_jobs=0)
    with pytest.raises(ParameterError, match="backend='nowhere'"):
        batch([], backend="nowhere")
    with pytest.raises(ParameterError, match="'multiprocessing' forks"):
        batch([], backend="multiprocessing")
    with pytest.raises(ParameterError, match="list of tool names"):
        batch([], allow_tools="look")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be used as a batch's folder"):
        batch([], ledger=tmp_path / "file")


def test_it_shows_itself(found: afnb.Batch) -> None:
    text = found.to_text()
    assert "5 failing runs: 3 with a verified repair, 1 verified to have no cause" in text
    assert "called policy with another category" in text
    assert len(repr(found).splitlines()) <= 6
    assert "<script" not in found._repr_html_()
    told = found.to_json()
    assert told["counts"] == {
        "repair": 3,
        "no_cause": 1,
        "unverified": 0,
        "untested": 1,
        "open": 0,
        "error": 0,
    }
    with pytest.raises(ParameterError, match="no pair of this batch"):
        found.card("nobody")


def test_workers_are_shared_evenly_among_the_pairs_at_work() -> None:
    shares = Shares(7)
    with shares.one() as a:
        assert a() == 7
        with shares.one() as b, shares.one() as c:
            assert sorted([a(), b(), c()]) == [2, 2, 3]
        assert a() == 7
    crowd = Shares(1)
    with crowd.one() as a, crowd.one() as b:
        assert (a(), b()) == (1, 1)


def test_no_more_replays_at_a_time_than_workers(tmp_path: Path) -> None:
    running = peak = 0
    lock = threading.Lock()

    def agent(ctx: Any) -> str:
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)
        try:
            return AGENT(ctx)
        finally:
            with lock:
                running -= 1

    place = folder(tmp_path, [Case(i) for i in range(5)])
    found = batch(place, agent=agent, upstream=upstream(latency_s=0.01), n_jobs=3)
    assert found.tally.repair == 5
    assert 1 < peak <= 3


def test_reasons_are_compared_without_what_is_the_pairs_own() -> None:
    one, other = BatchPair("a", "x/1.json", ("x/2.json",)), BatchPair("b", "y/7.json", ())
    assert shape("x/1.json: line 3 is torn", one) == shape("y/7.json: line 14 is torn", other)
    assert shape("a: no", one) != shape("a: yes", one)
