"""A planted agent on the openai SDK: the plan comes from the environment, the provider's URL too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from openai import OpenAI

from afnb.testing.planted import play, read_plan

plan = read_plan(os.environ["PLAN"])
client = OpenAI(api_key="sk-planted", max_retries=2)


def ask(body: dict[str, Any]) -> Mapping[str, Any]:
    """One request through the SDK."""
    answer: Mapping[str, Any] = client.chat.completions.create(**body).model_dump()
    return answer


print(play(plan, ask, int(os.environ["AFNB_SEED"])))
