from __future__ import annotations

import subprocess
import sys

import pytest

from afnb.core.cassette import Cassette
from afnb.errors import ParameterError
from afnb.io.environment import (
    KEPT_BASE_URLS,
    KNOWN_BASE_URLS,
    agent_environment,
    base_url_paths,
    recorded_base_urls,
)

URL = "http://127.0.0.1:40000"


@pytest.mark.parametrize(
    ("names", "paths"),
    [
        ("OPENAI_BASE_URL", {"OPENAI_BASE_URL": "/v1"}),
        (["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"], {"OPENAI_BASE_URL": "/v1", "ANTHROPIC_BASE_URL": ""}),
        (("MY_URL",), {"MY_URL": ""}),
        ({"MY_URL": "/api/v3/"}, {"MY_URL": "/api/v3"}),
        ({"OPENAI_BASE_URL": "/"}, {"OPENAI_BASE_URL": ""}),
        ({"OPENAI_BASE_URL": "openai"}, {"OPENAI_BASE_URL": "/@openai/v1"}),
        ({"OPENAI_BASE_URL": "local/"}, {"OPENAI_BASE_URL": "/@local"}),
        ({"MY_URL": "local/v2"}, {"MY_URL": "/@local/v2"}),
    ],
)
def test_what_each_variable_gets(names: object, paths: dict[str, str]) -> None:
    assert base_url_paths(names) == paths  # type: ignore[arg-type]


@pytest.mark.parametrize("names", ["", [], {}, ["A=B"], {"A": 3}, ["A\0"]])
def test_names_are_checked(names: object) -> None:
    with pytest.raises(ParameterError, match="base_url_env"):
        base_url_paths(names)  # type: ignore[arg-type]


def test_every_known_name_has_a_path_or_nothing() -> None:
    assert all(path in ("", "/v1") for path in KNOWN_BASE_URLS.values())


def test_the_agents_own_proxy_exceptions_stay() -> None:
    env = agent_environment(
        {"NO_PROXY": "corp.example, 127.0.0.1", "no_proxy": "other"}, base_url=URL, names="OPENAI_BASE_URL"
    )
    assert env["NO_PROXY"] == env["no_proxy"] == "corp.example,127.0.0.1,other,localhost,::1"
    everything = agent_environment({"no_proxy": "*"}, base_url=URL, names="X")
    assert everything["NO_PROXY"] == everything["no_proxy"] == "*"


def test_without_a_server_the_proxy_settings_stay_untouched() -> None:
    assert agent_environment({"NO_PROXY": "a"}) == {"NO_PROXY": "a"}


def test_an_empty_base_url_counts_as_not_set() -> None:
    env = agent_environment({"OPENAI_BASE_URL": "", "OTHER": ""}, base_url=URL, names="ANTHROPIC_BASE_URL")
    assert "OPENAI_BASE_URL" not in env
    assert env["OTHER"] == ""


def test_the_users_variables_win_but_for_the_base_url() -> None:
    env = agent_environment(
        {"A": "old"},
        base_url=URL + "/",
        names="OPENAI_BASE_URL",
        seed=7,
        workdir="/w",
        tmpdir="/t",
        extra={"A": "new", "OPENAI_BASE_URL": "https://api.openai.com/v1", "TMPDIR": "/mine"},
    )
    assert env["OPENAI_BASE_URL"] == URL + "/v1"
    assert (env["A"], env["TMPDIR"], env["TMP"]) == ("new", "/mine", "/t")
    assert (env["AFNB_SEED"], env["AFNB_WORKDIR"]) == ("7", "/w")


def test_importing_the_edges_loads_no_http_client() -> None:
    code = (
        "import sys, afnb.io.upstream, afnb.io.simulated, afnb.io.process, afnb.io.environment\n"
        "print([m for m in ('httpx', 'httpx2', 'pandas', 'pyarrow', 'joblib') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "[]\n"


def test_a_recording_leads_by_names_of_addresses_alone() -> None:
    kept = {"LD_PRELOAD": "/x", "PATH": "", "CRM_URL": "/", "OPENAI_BASE_URL": 3, "X_ENDPOINT": "http://x"}
    assert recorded_base_urls(Cassette("x", (), attrs={KEPT_BASE_URLS: kept})) == {"CRM_URL": "/"}
    assert recorded_base_urls(Cassette("x", ())) == {}
    assert recorded_base_urls(Cassette("x", (), attrs={KEPT_BASE_URLS: "OPENAI_BASE_URL"})) == {}
