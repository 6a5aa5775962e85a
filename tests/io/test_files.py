from __future__ import annotations

from pathlib import Path

import pytest

from afnb.errors import ParameterError
from afnb.io.files import refuse_existing, write_new


def test_a_name_that_is_taken_says_what_the_caller_can_do(tmp_path: Path) -> None:
    path = tmp_path / "x"
    refuse_existing(path)
    path.touch()
    with pytest.raises(ParameterError, match=r"x exists already; choose another name$"):
        refuse_existing(path)
    with pytest.raises(ParameterError, match=r"x exists already; choose another name, or go on: --append$"):
        refuse_existing(path, "go on: --append")


def test_only_who_can_overwrite_is_told_so(tmp_path: Path) -> None:
    write_new(tmp_path / "x", b"first")
    with pytest.raises(ParameterError, match=r"choose another name, or say overwrite=True$"):
        write_new(tmp_path / "x", b"second")
    assert (tmp_path / "x").read_bytes() == b"first"
    write_new(tmp_path / "x", b"second", overwrite=True)
    assert (tmp_path / "x").read_bytes() == b"second"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="there is no folder"):
        write_new(tmp_path / "none" / "x", b"")
