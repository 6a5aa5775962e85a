from __future__ import annotations

import asyncio
import functools
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from afnb.core.cassette import Cassette
from afnb.core.tape import Tape
from afnb.errors import AgentError, ParameterError
from afnb.experiments.agents import Agent, AgentResult, Command, Function, as_agent, with_timeout
from afnb.experiments.context import AgentContext
from afnb.experiments.pickling import require_picklable
from afnb.io.serve import Session
from afnb.io.upstream import as_upstream

OK = {"ok": True}


def run(agent: Agent, upstream: Any = None, session: Session | None = None, **options: Any) -> AgentResult:
    options.setdefault("workdir", "/tmp")
    upstream = None if upstream is None else as_upstream(upstream)
    return agent.run(session or Session(), upstream, seed=options.pop("seed", 5), **options)


def always(request: object) -> dict[str, bool]:
    return OK


CALLER = (
    "import json, os, sys, urllib.request\n"
    "base = os.environ['OPENAI_BASE_URL']\n"
    "print(json.loads(urllib.request.urlopen(base + '/models').read()))\n"
)


class TestCommand:
    def test_its_requests_reach_the_session(self, tmp_path: Path) -> None:
        session = Session()
        result = run(Command(["python", "-c", CALLER]), always, session, workdir=tmp_path)
        assert (result.status, result.exit_status, result.stdout) == ("finished", 0, "{'ok': True}\n")
        assert [e.request.path for e in session.cassette().exchanges] == ["/v1/models"]
        assert session.report().live == 1
        assert list(tmp_path.iterdir()) == []

    def test_a_proxy_in_the_environment_does_not_get_loopback_traffic(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", "corp.example")
        for code in (CALLER, CALLER.replace("urllib.request.urlopen(base + '/models').read()", HTTPX)):
            result = run(Command(["python", "-c", code]), always)
            assert result.stdout == "{'ok': True}\n", result.stderr

    def test_its_environment(self, tmp_path: Path) -> None:
        code = (
            "import os, tempfile\n"
            "print(os.environ['AFNB_SEED'], os.environ['AFNB_WORKDIR'], os.environ['MINE'])\n"
            "print(tempfile.gettempdir().startswith(os.environ['AFNB_WORKDIR']), os.getcwd())\n"
        )
        agent = Command(["python", "-c", code], env={"MINE": "yes"})
        result = run(agent, workdir=tmp_path, seed=77)
        assert result.stdout == f"77 {tmp_path} yes\nTrue {os.getcwd()}\n"
        elsewhere = run(Command(["python", "-c", "import os; print(os.getcwd())"], cwd=tmp_path))
        assert elsewhere.stdout == f"{tmp_path}\n"

    @pytest.mark.parametrize(
        ("code", "status", "words"),
        [
            ("import sys; sys.exit(3)", 3, "exit status 3"),
            ("raise ValueError('boom')", 1, "exit status 1: ValueError: boom"),
            ("import os; os.kill(os.getpid(), 9)", -9, "exit status -9"),
        ],
    )
    def test_another_exit_status_is_a_crash(self, code: str, status: int, words: str) -> None:
        result = run(Command(["python", "-c", code]))
        assert (result.status, result.exit_status) == ("crashed", status)
        assert words in str(result.error)

    def test_what_cannot_start_says_why(self) -> None:
        result = run(Command(["no-such-program-anywhere"]))
        assert (result.status, result.exit_status) == ("cannot_start", None)
        assert "was not found" in str(result.error)

    def test_a_time_out_and_a_stop(self) -> None:
        nap = Command(["python", "-c", "import time; time.sleep(60)"], timeout_s=0.3)
        assert run(nap).status == "timeout"
        stop = threading.Event()
        stop.set()
        assert run(with_timeout(nap, None), stop=stop).status == "stopped"

    def test_several_upstreams_by_name(self) -> None:
        code = (
            "import os, urllib.request\n"
            "for name in ('A', 'B'): print(urllib.request.urlopen(os.environ[name] + '/x').read().decode())\n"
        )
        agent = Command(["python", "-c", code], base_url_env={"A": "one", "B": "two/v1"})
        session = Session()
        upstream = {"one": lambda r: {"one": r.path}, "two": lambda r: {"two": r.path}}
        assert run(agent, upstream, session).stdout == '{"one":"/x"}\n{"two":"/v1/x"}\n'
        assert [e.upstream for e in session.cassette().exchanges] == ["one", "two"]
        replay = Session(Tape(session.cassette()))
        assert run(agent, upstream, replay).stdout == '{"one":"/x"}\n{"two":"/v1/x"}\n'
        offline = Session(Tape(session.cassette()), live=False)
        assert run(agent, None, offline).stdout == '{"one":"/x"}\n{"two":"/v1/x"}\n'
        assert offline.report().served == 2

    @pytest.mark.parametrize(
        "options",
        [
            {"argv": "python agent.py"},
            {"argv": []},
            {"argv": ["x"], "timeout_s": 0},
            {"argv": ["x"], "timeout_s": -1},
            {"argv": ["x"], "base_url_env": "A=B"},
            {"argv": ["x"], "base_url_env": ()},
        ],
    )
    def test_settings_are_checked(self, options: dict[str, Any]) -> None:
        with pytest.raises(ParameterError):
            Command(**options)

    def test_its_description_shows_no_secret(self) -> None:
        agent = Command(
            ["x", "--api-key", "s1", "--token=s2", "-v", "--keyboard", "-q", "plain", "--password", "s3"]
        )
        assert (
            agent.describe() == "command: x --api-key *** --token=*** -v --keyboard -q plain --password ***"
        )

    def test_its_fingerprint_changes_with_what_it_runs(self, tmp_path: Path) -> None:
        script = tmp_path / "agent.py"
        script.write_text("print(1)")
        agent = Command(["python", "agent.py", "--x"], cwd=tmp_path)
        before = agent.fingerprint()
        assert before == Command(("python", "agent.py", "--x"), cwd=tmp_path, timeout_s=5).fingerprint()
        assert before != Command(["python", "agent.py", "--y"], cwd=tmp_path).fingerprint()
        assert before != Command(["python", "agent.py", "--x"], cwd=tmp_path, env={"A": "1"}).fingerprint()
        assert before != Command(["python", "agent.py", "--x"], "OTHER_URL", cwd=tmp_path).fingerprint()
        script.write_text("print(2)")
        assert before != agent.fingerprint()


HTTPX = "__import__('httpx').get(base + '/models').read()"


class TestFunction:
    @pytest.mark.parametrize("module", ["httpx", "httpx2"])
    def test_every_way_reaches_the_session(self, module: str) -> None:
        def agent(ctx: AgentContext) -> list[Any]:
            import importlib

            http = importlib.import_module(module)
            got = [ctx.http_client(module).get("http://any.invalid/a").json()]
            with http.Client(transport=ctx.transport(module)) as client:
                got.append(client.get("http://any.invalid/b").json())
            with http.Client(trust_env=False) as client:
                got.append(client.get(ctx.base_url + "/c").json())
            assert ctx.base_url == ctx.base_url
            return [*got, ctx.seed, str(ctx.workdir)]

        session = Session()
        result = run(Function(agent), always, session)
        assert (result.status, result.value) == ("finished", [OK, OK, OK, 5, "/tmp"])
        assert [e.request.path for e in session.cassette().exchanges] == ["/a", "/b", "/c"]

    @pytest.mark.parametrize("module", ["httpx", "httpx2"])
    def test_an_async_function_is_run(self, module: str) -> None:
        async def agent(ctx: AgentContext) -> Any:
            client = ctx.async_http_client(module)
            pages = await asyncio.gather(*(client.get(f"/p{i}") for i in range(5)))
            return [page.json() for page in pages]

        session = Session()
        result = run(Function(agent), always, session)
        assert result.value == [OK] * 5, result.traceback
        assert len(session.cassette()) == 5

    def test_an_exception_is_plain_data(self) -> None:
        class Odd(Exception):
            def __init__(self, a: int, b: int) -> None:
                super().__init__("odd one")
                self.lock = threading.Lock()

        def agent(ctx: AgentContext) -> None:
            raise Odd(1, 2)

        result = run(Function(agent))
        assert result.status == "crashed"
        assert result.error == "the agent function raised Odd: odd one"
        assert "in agent" in str(result.traceback)
        assert require_picklable(result) > 0

    @pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
    def test_even_an_exit_is_a_crash(self, error: BaseException) -> None:
        def agent(ctx: AgentContext) -> None:
            raise error

        assert run(Function(agent)).status == "crashed"

    @pytest.mark.parametrize(
        ("value", "kept"),
        [
            ("text", "text"),
            ({"a": [1, 2.5, None, True]}, {"a": [1, 2.5, None, True]}),
            ((1, 2), [1, 2]),
            (None, None),
            (object(), None),
            ({"a": object()}, None),
            (float("nan"), None),
        ],
    )
    def test_only_json_leaves_a_run(self, value: Any, kept: Any) -> None:
        result = run(Function(lambda ctx: value))
        assert (result.status, result.value) == ("finished", kept)

    def test_after_a_time_out_its_requests_are_refused(self) -> None:
        release, ended, seen = threading.Event(), threading.Event(), []

        def agent(ctx: AgentContext) -> None:
            import httpx

            client, own = ctx.http_client("httpx"), httpx.Client(transport=ctx.transport("httpx"))
            release.wait(20)
            seen.append(own.get("http://any.invalid/late").status_code)
            try:
                client.get("/late")
            finally:
                ended.set()

        session = Session()
        result = run(Function(agent, timeout_s=0.1), always, session)
        assert result.status == "timeout"
        assert "its thread cannot be ended" in str(result.error)
        release.set()
        assert ended.wait(20)
        assert seen[0] >= 400
        assert session.report().late == 1
        assert len(session.cassette()) == 0

    def test_an_async_function_is_cancelled(self) -> None:
        ended = threading.Event()

        async def agent(ctx: AgentContext) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()

        result = run(Function(agent, timeout_s=0.1))
        assert (result.status, ended.is_set()) == ("timeout", True)
        assert "it was cancelled" in str(result.error)

    def test_a_stop_ends_it(self) -> None:
        stop, release = threading.Event(), threading.Event()

        def agent(ctx: AgentContext) -> None:
            stop.set()
            release.wait(20)

        result = run(Function(agent), stop=stop)
        release.set()
        assert result.status == "stopped"

    def test_a_context_that_has_ended_starts_nothing(self) -> None:
        kept: list[AgentContext] = []
        run(Function(kept.append), always)
        with pytest.raises(AgentError, match="has ended"):
            _ = kept[0].base_url

    def test_a_proxy_in_front_of_the_base_url_is_a_warning(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.setenv("no_proxy", "localhost")
        ctx = AgentContext(Session(), as_upstream(always), seed=0, workdir=Path("/tmp"))
        with pytest.warns(RuntimeWarning, match="NO_PROXY does not name 127.0.0.1"):
            _ = ctx.base_url
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        _ = ctx.base_url
        ctx.close()

    def test_no_thread_and_no_file_is_left(self) -> None:
        def agent(ctx: AgentContext) -> Any:
            import urllib.request

            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            return opener.open(ctx.base_url + "/x").read().decode()

        run(Function(agent), always)
        threads, files = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            assert run(Function(agent), always).value == '{"ok":true}'
        assert set(threading.enumerate()) <= threads
        assert len(os.listdir("/proc/self/fd")) <= files

    def test_settings_are_checked(self) -> None:
        with pytest.raises(ParameterError):
            Function("agent")  # type: ignore[arg-type]
        with pytest.raises(ParameterError):
            Function(print, timeout_s=0)

    def test_parallel_runs_do_not_mix(self) -> None:
        def agent(ctx: AgentContext) -> Any:
            client = ctx.http_client("httpx")
            return [client.post("/x", json={"seed": ctx.seed, "i": i}).json() for i in range(10)]

        def echo(request: Any) -> Any:
            return {"body": request.body.decode()}

        results: dict[int, Any] = {}

        def go(seed: int) -> None:
            results[seed] = run(Function(agent), echo, seed=seed).value

        threads = [threading.Thread(target=go, args=(seed,)) for seed in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for seed, value in results.items():
            assert value == [{"body": f'{{"seed":{seed},"i":{i}}}'} for i in range(10)]


def test_what_becomes_an_agent() -> None:
    function, command = Function(print), Command(["x"])
    assert as_agent(function) is function
    assert as_agent(command) is command
    assert as_agent(["python", "x.py"]) == Command(["python", "x.py"])
    assert as_agent(print) == function
    assert isinstance(function, Agent)

    class Theirs:
        def run(
            self, session: Any, upstream: Any, *, seed: int, workdir: Any, stop: Any = None
        ) -> AgentResult:
            return AgentResult("finished", value=1)

        def fingerprint(self) -> str:
            return "theirs"

        def describe(self) -> str:
            return "theirs"

    theirs = Theirs()
    assert as_agent(theirs) is theirs
    for value in ("python x.py", 3, None, {"argv": []}):
        with pytest.raises(ParameterError, match="agent is"):
            as_agent(value)


def make(constant: Any) -> Any:
    def agent(ctx: AgentContext) -> Any:
        return constant

    return agent


class Stateful:
    def __init__(self, prompt: str) -> None:
        self.prompt = prompt

    def __call__(self, ctx: AgentContext) -> str:
        return self.prompt


def test_function_fingerprints_follow_source_and_constants() -> None:
    def of(f: Any) -> str:
        return Function(f).fingerprint()

    assert of(make(1)) == of(make(1))
    assert len({of(make(c)) for c in (1, 1.0, True, "1", b"1", (1,), [1], {"a": 1}, {1}, None)}) == 10
    assert of(make(make(1))) != of(make(make(2)))
    assert of(functools.partial(make, 1)) != of(functools.partial(make, 2))
    assert of(Stateful("a")) == of(Stateful("a"))
    assert of(Stateful("a")) != of(Stateful("b"))
    assert of(Stateful("a").__call__) != of(Stateful("b").__call__)
    assert of(make({"x": 1, "y": 2})) == of(make({"y": 2, "x": 1}))

    def recursive(ctx: Any) -> Any:
        return recursive

    assert of(recursive) == of(recursive)
    made = eval("lambda ctx: 41"), eval("lambda ctx: 42")
    assert of(made[0]) != of(made[1])


def test_fingerprints_are_the_same_in_another_process(tmp_path: Path) -> None:
    import subprocess

    (tmp_path / "mine.py").write_text("PROMPT = 'x'\ndef agent(ctx, tone='kind'):\n    return tone\n")
    code = (
        "from mine import agent; from afnb.experiments.agents import Function\n"
        "print(Function(agent).fingerprint())"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    outs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**env, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outs) == 1


def test_what_does_not_pickle_is_named() -> None:
    lock = threading.Lock()

    def agent(ctx: AgentContext) -> Any:
        return lock

    with pytest.raises(
        ParameterError, match=r"agent .*agent cannot be sent .* its closed-over variable 'lock'"
    ):
        require_picklable(Function(agent))
    with pytest.raises(ParameterError, match="its field 'prompt'"):
        require_picklable(Function(Stateful(lock)))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="argument 0"):
        require_picklable(Function(functools.partial(print, lock)))
    assert require_picklable(Command(["x"])) > 0


def test_agents_run_in_worker_processes() -> None:
    import joblib

    def agent(ctx: AgentContext) -> Any:
        return ctx.http_client("httpx").get("/x").json()

    def job(seed: int) -> tuple[AgentResult, Cassette]:
        session = Session()
        return Function(agent).run(
            session, as_upstream(always), seed=seed, workdir="/tmp"
        ), session.cassette()

    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        done = joblib.Parallel(n_jobs=2)(joblib.delayed(job)(seed) for seed in range(3))
    assert [(result.value, len(cassette)) for result, cassette in done] == [(OK, 1)] * 3
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)
