"""environment.yml and pyproject.toml ask for the same packages in the same bounds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

CONDA_NAMES = {"matplotlib-base": "matplotlib"}
NOT_FROM_PYPROJECT = {"python", "pip"}


def bounds(lines: list[str]) -> dict[str, str]:
    found = {}
    for line in lines:
        match = re.fullmatch(r"([A-Za-z0-9_.-]+)(\[[^\]]*\])?\s*(.*)", line)
        assert match, line
        name = match[1].lower()
        found[CONDA_NAMES.get(name, name)] = match[3].replace(" ", "")
    return found


def test_environment_equals_pyproject(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    environment = yaml.safe_load((root / "environment.yml").read_text(encoding="utf-8"))
    plain = [line for line in environment["dependencies"] if isinstance(line, str)]
    conda = {k: v for k, v in bounds(plain).items() if k not in NOT_FROM_PYPROJECT}
    wanted = bounds(project["dependencies"] + project["optional-dependencies"]["notebooks"])
    assert conda == wanted
    assert (
        bounds([line for line in plain if line.startswith("python")])["python"] == project["requires-python"]
    )
    assert {"pip": ["-e ."]} in environment["dependencies"]
