"""Finding out what a file is, and saying what is missing where nobody knows it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from afnb.core.cassette import Cassette
from afnb.core.run import Run
from afnb.errors import InputError, ParameterError
from afnb.io.formats.cassette import text_of
from afnb.io.formats.source import Source, decompressed
from afnb.io.load import FORMATS, find_format, load

TEXT = text_of(Cassette("c")).encode()


def file(tmp_path: Path, data: bytes | str, name: str = "x.json") -> Path:
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize(
    "data",
    [
        TEXT,
        gzip.compress(TEXT, mtime=0),
        gzip.compress(TEXT[:9], mtime=0) + gzip.compress(TEXT[9:], mtime=0),
        zstandard.ZstdCompressor().compress(TEXT),
        zstandard.ZstdCompressor().compress(TEXT[:9]) + zstandard.ZstdCompressor().compress(TEXT[9:]),
    ],
)
def test_compression_is_told_by_the_bytes(data: bytes, tmp_path: Path) -> None:
    path = file(tmp_path, data, "anything")
    loaded = load(path)
    assert isinstance(loaded, Cassette)
    assert (loaded.id, loaded.source) == ("c", str(path))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gzip.compress(TEXT, mtime=0)[:-9], "gzip data are damaged or cut off"),
        (zstandard.ZstdCompressor().compress(TEXT)[:-3], "zstd data are"),
        (b"\x28\xb5\x2f\xfdxxxx", "zstd data are damaged"),
        (b"", "the file is empty"),
        (b"hello", "no known format; afnb reads a journal"),
        (b'{"cassette_version":"0.1","id":', "it was cut off"),
        (b'{"cassette_version":"0.1","id":"c"}', "exchanges: found nothing"),
        (b'{"exchanges":[]}', "nearest is a cassette .*, but it has no cassette_version and no id"),
        (b'{"x":1', "not JSON: Expecting ',' delimiter .* cut off"),
    ],
)
def test_what_is_missing_is_said(data: bytes, said: str, tmp_path: Path) -> None:
    path = file(tmp_path, data)
    with pytest.raises(InputError, match=said) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_yaml_without_interactions_is_nearest_to_vcr(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nearest is a VCR.py cassette .*, but it has no interactions"):
        load(file(tmp_path, "a: 1\n", "x.yaml"))


def test_an_outcome_is_set_and_never_guessed(tmp_path: Path) -> None:
    path = file(tmp_path, TEXT)
    assert load(path).outcome is None
    assert load(path, "pass").outcome == "pass"
    with pytest.raises(ParameterError, match="outcome='good'"):
        load(path, "good")  # type: ignore[arg-type]


def test_a_trace_is_a_run_with_the_outcome_its_file_states(tmp_path: Path) -> None:
    text = '{"schema_version":"0.1","id":"r","outcome":"fail","steps":[{"idx":0,"kind":"llm","name":"a"}]}'
    loaded = load(file(tmp_path, gzip.compress(text.encode()), "r.json.gz"))
    assert isinstance(loaded, Run)
    assert (loaded.id, loaded.outcome, len(loaded)) == ("r", "fail", 1)
    assert load(file(tmp_path, text), "pass").outcome == "pass"
    with pytest.raises(InputError, match=r"nearest is a trace .*, but it has no id"):
        load(file(tmp_path, '{"schema_version":"0.1","steps":[]}'))


def test_a_format_can_be_named(tmp_path: Path) -> None:
    path = file(tmp_path, json.dumps({"interactions": []}))
    assert len(load(path, format="vcr")) == 0
    with pytest.raises(InputError, match="no cassette_version"):
        load(path, format="cassette")
    with pytest.raises(ParameterError, match="format='nope'; expected one of"):
        load(path, format="nope")


def test_a_run_id_must_be_there(tmp_path: Path) -> None:
    path = file(tmp_path, TEXT)
    assert load(path, run_id="c").id == "c"
    with pytest.raises(InputError, match="found the run 'c' only"):
        load(path, run_id="d")


def test_no_format_claims_anothers_file() -> None:
    samples = {
        "cassette": TEXT,
        "trace": b'{"schema_version":"0.1","id":"r","steps":[]}',
        "vcr": b"interactions: []\n",
        "journal": b'{"afnb_journal":1,"cassette_version":"0.1","id":"x"}\n',
    }
    for name, data in samples.items():
        claims = [one.name for one in FORMATS if one.detect(Source(data, name)).score >= 1.0]
        assert claims == [name]
        assert find_format(Source(data, name)).name == name


def test_plain_data_are_not_touched() -> None:
    assert decompressed(b"abc") == b"abc"
