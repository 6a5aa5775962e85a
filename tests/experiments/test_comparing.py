from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.align.diff import diff as pure
from afnb.errors import InputError, ParameterError
from afnb.experiments.demo import bundled, data_dir

FOLDER = data_dir() / "refund"


@pytest.mark.parametrize("form", [str, Path])
def test_paths_are_as_good_as_recordings(form: Any) -> None:
    pair = bundled("refund")
    found = afnb.diff(form(FOLDER / "bad.json"), form(FOLDER / "good.json"))
    assert found.to_json() == pure(pair.bad, pair.good).to_json()
    assert afnb.diff(FOLDER / "bad.json", pair.good).fork == found.fork
    assert afnb.diff(FOLDER / "good.json", FOLDER / "good.json").converged


def test_every_argument_is_handed_on() -> None:
    params = afnb.AlignParams(tau=0.9)
    assert afnb.diff(FOLDER / "bad.json", FOLDER / "good.json", params).params == params
    with pytest.raises(ParameterError):
        afnb.diff(FOLDER / "bad.json", FOLDER / "good.json", max_steps=2)
    names = [list(inspect.signature(f).parameters) for f in (afnb.diff, pure)]
    assert names[0] == names[1]


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="good is a int; expected a path, a Run"):
        afnb.diff(FOLDER / "bad.json", 3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"none\.json: no such file"):
        afnb.diff(FOLDER / "bad.json", tmp_path / "none.json")
