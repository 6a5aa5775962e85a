"""Pairs from every form of manifest, and one sentence for what is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from afnb.errors import InputError, ParameterError
from afnb.experiments.pairs import BatchPair, as_pairs

ROWS: list[dict[str, Any]] = [
    {"name": "one", "bad": "a/bad.json", "good": "a/good.json", "task": "refund 1", "suite": "nightly"},
    {"name": "two", "bad": "b/bad.json", "good": ["b/good1.json", "b/good2.json"], "suite": None},
]


def shown(pairs: tuple[BatchPair, ...], base: Path | None = None) -> list[tuple[Any, ...]]:
    def place(path: Any) -> str:
        return Path(path).relative_to(base).as_posix() if base else str(path)

    return [(p.name, place(p.bad), tuple(map(place, p.goods)), p.task, dict(p.labels)) for p in pairs]


WANTED = [
    ("one", "a/bad.json", ("a/good.json",), "refund 1", {"suite": "nightly"}),
    ("two", "b/bad.json", ("b/good1.json", "b/good2.json"), None, {}),
]


@pytest.mark.parametrize("form", ["json", "object", "jsonl", "csv", "parquet"])
def test_every_manifest_says_the_same(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"pairs.{'json' if form == 'object' else form}"
    if form == "json":
        path.write_text(json.dumps(ROWS), encoding="utf-8")
    elif form == "object":
        path.write_text(json.dumps({"pairs": ROWS}), encoding="utf-8")
    elif form == "jsonl":
        path.write_text("\n".join(json.dumps(row) for row in ROWS) + "\n\n", encoding="utf-8")
    elif form == "csv":
        path.write_text(
            "\ufeffname,bad,good,good2,task,suite\r\none,a/bad.json,a/good.json,,refund 1,nightly\r\n"
            "two,b/bad.json,b/good1.json,b/good2.json,,\r\n",
            encoding="utf-8",
            newline="",
        )
    else:
        goods = pa.array([["a/good.json"], ["b/good1.json", "b/good2.json"]])
        plain = {key: [row.get(key) for row in ROWS] for key in ("name", "bad", "task", "suite")}
        pq.write_table(pa.table({**plain, "good": goods}), path)
    assert shown(as_pairs(path), tmp_path) == WANTED


def test_tables_in_memory() -> None:
    frame = pd.DataFrame(ROWS)
    assert shown(as_pairs(frame)) == WANTED
    assert shown(
        as_pairs(pa.Table.from_pylist([{k: v for k, v in row.items() if k != "good"} for row in ROWS]))
    ) == [(name, bad, (), task, labels) for name, bad, _, task, labels in WANTED]
    assert shown(as_pairs(ROWS)) == WANTED
    assert shown(as_pairs({"one": ("a/bad.json", "a/good.json")})) == [
        ("one", "a/bad.json", ("a/good.json",), None, {})
    ]


def test_a_folder_of_folders(tmp_path: Path) -> None:
    for name in ("run10", "run9", "deep/er"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "bad.json").write_text("{}")
        (tmp_path / name / "good.json").write_text("{}")
    (tmp_path / "run9" / "good-2.json").write_text("{}")
    (tmp_path / "run9" / "good.json.part").write_text("half")
    (tmp_path / "run9" / "pair.json").write_text('{"task": "t", "labels": {"suite": "s", "none": null}}')
    (tmp_path / "deep" / "er" / "bad-2.json").write_text("{}")
    (tmp_path / "nothing").mkdir()
    assert shown(as_pairs(tmp_path), tmp_path) == [
        ("deep/er/bad", "deep/er/bad.json", ("deep/er/good.json",), None, {}),
        ("deep/er/bad-2", "deep/er/bad-2.json", ("deep/er/good.json",), None, {}),
        ("run9", "run9/bad.json", ("run9/good.json", "run9/good-2.json"), "t", {"suite": "s"}),
        ("run10", "run10/bad.json", ("run10/good.json",), None, {}),
    ]


def test_a_good_may_be_a_pattern(tmp_path: Path) -> None:
    for name in ("good10.json", "good2.json", "a[1].json"):
        (tmp_path / name).write_text("{}")
    path = tmp_path / "m.json"
    path.write_text(
        json.dumps([{"bad": "b.json", "good": "good*.json"}, {"bad": "b.json", "good": "a[1].json"}])
    )
    first, second = as_pairs(path)
    assert [Path(good).name for good in first.goods] == ["good2.json", "good10.json"]
    assert [Path(good).name for good in second.goods] == ["a[1].json"]
    assert (first.name, second.name) == ("b", "b #2")


def test_names_stay_distinct() -> None:
    rows = [{"name": name, "bad": "x"} for name in ("a", "a", "a #2", "a")]
    assert [pair.name for pair in as_pairs(rows)] == ["a", "a #3", "a #2", "a #4"]


def test_own_agents_and_labels() -> None:
    def agent() -> None: ...

    (pair,) = as_pairs(
        [{"bad": "b", "good": "g", "agent": agent, "oracle": "text", "labels": {"n": 3}, "x": float("nan")}]
    )
    assert pair.agent is agent
    assert pair.oracle is None
    assert pair.label("oracle") == "text"
    assert pair.words() == {"oracle": "text", "n": "3", "name": "b", "task": ""}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("m.json", "{", "m.json: is no JSON"),
        ("m.json", "3", "m.json: expected a list of pairs"),
        ("m.json", "[3]", "m.json position 0: expected \\(bad, good\\)"),
        ("m.json", '[{"god": "x"}]', "no column 'bad' \\(there are: god\\)"),
        ("m.jsonl", '{"bad": "x"}\n{', "m.jsonl:2: is no JSON"),
        ("m.csv", 'bad,good\n"x', "m.csv:1: is no CSV"),
        ("m.parquet", "no", "m.parquet: is no Parquet table"),
        ("m.yaml", "", "found .yaml"),
    ],
)
def test_one_sentence_for_a_manifest_that_cannot_be_read(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        as_pairs(tmp_path / name)


def test_what_is_no_manifest() -> None:
    with pytest.raises(InputError, match="no such manifest or folder"):
        as_pairs("nowhere")
    with pytest.raises(ParameterError, match="got int"):
        as_pairs(3)
    with pytest.raises(ParameterError, match="expected \\(bad, good\\)"):
        as_pairs([("only",)])
    assert as_pairs([]) == ()


def test_a_row_without_a_run_stays_a_row() -> None:
    first, second = as_pairs([{"bad": "x", "good": "y"}, {"good": "y", "name": "lost"}])
    assert (first.bad, second.bad, second.name) == ("x", None, "lost")
