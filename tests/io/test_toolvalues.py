"""What a tool is called with, as JSON, and failures that are raised again."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import uuid
from typing import Any

import pytest

from afnb.errors import ParameterError, ToolFailed
from afnb.io.toolvalues import arguments_of, as_recorded, failure, plain


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    tags: set[str]


class Shop:
    def order(self, item: str, count: int = 1) -> None: ...


class Odd(Exception):
    def __init__(self, code: int, words: str) -> None:
        self.code = code
        super().__init__(f"{words} ({code})")


class Stubborn(Exception):
    def __str__(self) -> str:
        return "always the same"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, [2.5, None, True]), [1, [2.5, None, True]]),
        ({1: "a"}, {"1": "a"}),
        ({"b", "a"}, ["a", "b"]),
        (Colour.RED, "red"),
        (Point(1, {"t"}), {"x": 1, "tags": ["t"]}),
        (datetime.datetime(2026, 3, 30, 12), "2026-03-30 12:00:00"),
        (decimal.Decimal("1.10"), "1.10"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (b"\xff", {"base64": "/w=="}),
        (float("nan"), "nan"),
    ],
)
def test_values_as_json(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    json.dumps(plain(value))


def test_numpy_and_pydantic_values() -> None:
    numpy = pytest.importorskip("numpy")
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", when=(datetime.date, ...))
    assert plain([numpy.int64(3), numpy.float32(0.5)]) == [3, 0.5]
    assert plain(model(when=datetime.date(2026, 3, 30))) == {"when": "2026-03-30"}


def test_arguments_are_named_as_the_function_names_them() -> None:
    assert arguments_of(Shop.order, "order", (Shop(), "tea"), {"count": 2}, ()) == {"item": "tea", "count": 2}
    assert arguments_of(Shop().order, "order", ("tea",), {}, ()) == {"item": "tea"}
    assert arguments_of(lambda ctx, q: q, "f", (object(), "x"), {}, ("ctx",)) == {"q": "x"}
    assert arguments_of(lambda q: q, "f", ("x", "too many"), {}, ()) == {"0": "x", "1": "too many"}


def test_what_cannot_be_recorded_says_how_to_leave_it_out() -> None:
    with pytest.raises(ParameterError, match=r"client=a object.*ignore=\('client',\)"):
        arguments_of(lambda client: None, "ask", (object(),), {}, ())


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such order"),
        KeyError("8841"),
        KeyError(3),
        FileNotFoundError(2, "No such file or directory"),
        json.JSONDecodeError("bad", "{", 1),
        Odd(7, "odd"),
        RuntimeError(),
    ],
)
def test_a_failure_is_raised_again_as_it_was(error: Exception) -> None:
    told = failure(error)
    again = as_recorded(told["error"], told["error_type"])
    assert type(again) is type(error)
    assert str(again) == str(error)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("boom", "no.such.module:Lost"),
        ("boom", "builtins:int"),
        ("boom", "builtins:KeyboardInterrupt"),
        ("boom", f"{__name__}:Stubborn"),
        ("boom", "json:JSONDecodeError.nothing"),
        ("boom", None),
        ("boom", ""),
    ],
)
def test_a_class_that_is_not_known_has_a_stand_in(text: str, kind: str | None) -> None:
    again = as_recorded(text, kind)
    assert isinstance(again, ToolFailed)
    assert str(again) == text
    if kind:
        assert type(again).__name__ == kind.rpartition(":")[2].rpartition(".")[2]
