from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from afnb.errors import ParameterError
from afnb.io.process import _Ends, resolve_argv, run_command, scratch


def py(code: str, *args: str) -> list[str]:
    return ["python", "-c", code, *args]


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie that waits for its parent does not)."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int) -> bool:
    until = time.monotonic() + 5
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not alive(pid)


CHILD = (
    "import os, subprocess, sys, time\n"
    "quiet = subprocess.DEVNULL\n"
    "child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=quiet, stderr=quiet)\n"
    "open(sys.argv[2], 'w').write(str(child.pid)); os.rename(sys.argv[2], sys.argv[3])\n"
)
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"


def test_a_command_ends_with_its_output_and_status() -> None:
    done = run_command(py("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"))
    assert (done.status, done.exit_status, done.stdout, done.stderr) == ("exited", 3, "out\n", "err\n")
    assert done.error is None


def test_a_command_ended_by_a_signal_has_its_negative_number() -> None:
    done = run_command(py("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    assert (done.status, done.exit_status) == ("exited", -signal.SIGKILL)


def test_a_bare_python_is_this_interpreter() -> None:
    assert run_command(py("import sys; print(sys.executable)")).stdout == sys.executable + "\n"
    assert resolve_argv(["python3", Path("x")]) == [sys.executable, "x"]
    assert resolve_argv(["./python"]) == ["./python"]


@pytest.mark.parametrize("argv", ["python agent.py", b"x", [], [""], ["python", 3]])
def test_a_command_that_is_none(argv: object) -> None:
    with pytest.raises(ParameterError, match=r"command (is|has)"):
        run_command(argv)  # type: ignore[arg-type]


def test_it_has_no_stdin_to_wait_for() -> None:
    assert run_command(py("import sys; print(repr(sys.stdin.read()))"), timeout_s=20).stdout == "''\n"


def test_environment_and_directory(tmp_path: Path) -> None:
    code = "import os; print(os.getcwd()); print(sorted(k for k in os.environ if k.startswith('MY')))"
    done = run_command(py(code), env={"MY_A": "1", "PATH": os.environ["PATH"]}, cwd=tmp_path)
    assert done.stdout == f"{tmp_path}\n['MY_A']\n"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["no-such-program-anywhere"], "was not found"),
        (["./no-such-file"], "was not found"),
        (["./plain.txt"], "not an executable file"),
        (["./broken"], "cannot be started"),
        (["python", "missing.py"], "the program 'missing.py' does not exist"),
        (["python", "-c", "nul\0byte"], "cannot be started"),
    ],
)
def test_what_cannot_start_is_a_value_with_the_reason(tmp_path: Path, argv: list[str], words: str) -> None:
    (tmp_path / "plain.txt").write_text("x")
    (tmp_path / "broken").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "broken").chmod(0o755)
    done = run_command(argv, cwd=tmp_path)
    assert done.status == "cannot_start"
    assert done.exit_status is None
    assert words in str(done.error)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    done = run_command(py("pass"), cwd=tmp_path / "none")
    assert done.status == "cannot_start"
    assert "working directory" in str(done.error)


def set_when_there(path: Path) -> threading.Event:
    """An event that is set once ``path`` exists."""
    stop = threading.Event()

    def wait() -> None:
        while not path.exists():
            time.sleep(0.01)
        stop.set()

    threading.Thread(target=wait, daemon=True).start()
    return stop


def test_a_time_out_ends_it() -> None:
    done = run_command(py("import time; time.sleep(60)"), timeout_s=0.2)
    assert done.status == "timeout"
    assert done.exit_status == -signal.SIGTERM
    assert "did not end within 0.2 s" in str(done.error)


def test_the_whole_group_is_ended(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    argv = py(
        "print('before', flush=True)\n" + CHILD + "time.sleep(60)", DEAF, str(tmp_path / "p"), str(pid_file)
    )
    done = run_command(argv, timeout_s=60, grace_s=0.2, stop=set_when_there(pid_file))
    assert (done.status, done.exit_status, done.stdout) == ("stopped", -signal.SIGTERM, "before\n")
    assert gone(int(pid_file.read_text()))


def test_a_command_that_will_not_be_asked_is_killed(tmp_path: Path) -> None:
    ready = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open(sys.argv[1], 'w')\n"
    )
    argv = py(ready + "time.sleep(60)", str(tmp_path / "ready"))
    done = run_command(argv, timeout_s=60, grace_s=0.2, stop=set_when_there(tmp_path / "ready"))
    assert (done.status, done.exit_status) == ("stopped", -signal.SIGKILL)


def test_what_a_finished_command_leaves_behind_is_ended(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    done = run_command(py(CHILD, DEAF, str(tmp_path / "p"), str(pid_file)), grace_s=0.2)
    assert (done.status, done.exit_status) == ("exited", 0)
    assert gone(int(pid_file.read_text()))


def test_a_process_that_holds_the_pipes_does_not_hang_us(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "nap = [sys.executable, '-c', 'import time; time.sleep(30)']\n"
        "child = subprocess.Popen(nap, start_new_session=True)\n"
        "print(child.pid)\n"
    )
    start = time.monotonic()
    done = run_command(py(code), timeout_s=20, grace_s=0.2)
    assert time.monotonic() - start < 10
    assert done.status == "exited"
    os.kill(int(str(done.stdout)), signal.SIGKILL)


def test_stop_ends_it() -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    done = run_command(py("import time; time.sleep(60)"), timeout_s=30, stop=stop, grace_s=0.5)
    assert done.status == "stopped"
    assert done.wall_s < 10
    stop.set()
    assert run_command(py("import time; time.sleep(60)"), stop=stop, grace_s=0.5).status == "stopped"


def test_an_interrupt_ends_the_command_too(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    inner = "import os, sys, time; open(sys.argv[1] + '~', 'w').write(str(os.getpid()))\n"
    inner += "os.rename(sys.argv[1] + '~', sys.argv[1]); time.sleep(60)"
    outer = (
        "import signal, sys; from afnb.io.process import run_command\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background job starts without
        "try: run_command(['python', '-c', sys.argv[1], sys.argv[2]], grace_s=0.5)\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    argv = [sys.executable, "-c", outer, inner, str(pid_file)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as running:
        set_when_there(pid_file).wait(60)
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=60)[0] == "interrupted\n"
    assert gone(int(pid_file.read_text()))


def test_an_interrupt_while_a_command_is_being_started_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import afnb.io.process as process

    started: list[int] = []
    spawn = process._spawn

    def interrupted(*args: Any) -> Any:
        child = spawn(*args)
        started.append(child.pid)
        os.kill(os.getpid(), signal.SIGINT)
        return child

    monkeypatch.setattr(process, "_spawn", interrupted)
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            run_command(py("import time; time.sleep(60)"), grace_s=0.5)
        assert gone(started[0])
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, inherited)


def test_output_is_bounded_at_both_ends() -> None:
    code = "import sys\nfor i in range(60000): print('line', i)\nprint('\\udcff', file=sys.stderr)"
    done = run_command(["python", "-X", "utf8", "-c", code], max_output=1000, timeout_s=60)
    assert done.stdout is not None
    assert len(done.stdout) < 1100
    assert done.stdout.startswith("line 0\n")
    assert done.stdout.endswith("line 59999\n")
    assert "bytes left out" in done.stdout


def test_the_ends_of_a_stream() -> None:
    ends = _Ends(10)
    for piece in (b"abc", b"defgh", b"ijklmnop", b"q"):
        ends.add(piece)
    assert ends.text() == "abcde\n[... 7 bytes left out ...]\nmnopq"
    short = _Ends(10)
    short.add(b"abc\xff")
    assert short.text() == "abc\\xff"


def test_nothing_is_left_of_a_run() -> None:
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        run_command(py("print(1)"))
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == files


def test_uncaptured_output_goes_where_ours_goes(capfd: pytest.CaptureFixture[str]) -> None:
    done = run_command(py("print('seen')"), capture=False)
    assert (done.status, done.stdout, done.stderr) == ("exited", None, None)
    assert capfd.readouterr().out == "seen\n"


def test_an_interactive_command_has_the_terminal_and_gives_it_back() -> None:
    outer = (
        "import os, sys\n"
        "from afnb.io.process import run_command\n"
        "inner = ['python', '-c', 'print(\"got\", input())']\n"
        "done = run_command(inner, capture=False, timeout_s=30)\n"
        "print('status', done.exit_status, os.tcgetpgrp(0) == os.getpgrp(), input())\n"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", outer])
    os.write(terminal, b"hello\nagain\n")
    seen = b""
    while True:
        try:
            data = os.read(terminal, 4096)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.waitpid(pid, 0)
    os.close(terminal)
    assert b"got hello" in seen
    assert b"status 0 True again" in seen


def test_scratch_goes_away(tmp_path: Path) -> None:
    with scratch(tmp_path) as folder:
        (folder / "x").write_text("x")
        assert folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []
