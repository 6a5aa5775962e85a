"""google-genai: its own loop over functions, and streams with a loop of ours."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from google import genai
from google.genai import types
from task import SCHEMAS, SYSTEM, TASK, TOOLS

MODEL = "gemini-test"


def start() -> tuple[list[Any], Any]:
    functions = [
        types.FunctionDeclaration(name=name, parameters_json_schema=schema)
        for name, schema in SCHEMAS.items()
    ]
    tools: list[Any] = [types.Tool(function_declarations=functions)]
    contents = [types.Content(role="user", parts=[types.Part(text=TASK)])]
    return contents, types.GenerateContentConfig(system_instruction=SYSTEM, tools=tools)


def go_on(contents: list[Any], parts: list[Any]) -> str | None:
    calls = [part.function_call for part in parts if part.function_call]
    if not calls:
        return "".join(part.text or "" for part in parts)
    results = [
        types.Part.from_function_response(name=call.name, response={"result": TOOLS[call.name](**call.args)})
        for call in calls
    ]
    contents += [types.Content(role="model", parts=parts), types.Content(role="user", parts=results)]
    return None


def run(client: Any, stream: bool = False) -> str:
    contents, config = start()
    while True:
        ask = {"model": MODEL, "contents": contents, "config": config}
        if stream:
            chunks = list(client.models.generate_content_stream(**ask))
        else:
            chunks = [client.models.generate_content(**ask)]
        answer = go_on(contents, [part for one in chunks for part in one.candidates[0].content.parts or []])
        if answer is not None:
            return answer


async def arun(client: Any, stream: bool = False) -> str:
    contents, config = start()
    while True:
        ask = {"model": MODEL, "contents": contents, "config": config}
        if stream:
            chunks = [chunk async for chunk in await client.aio.models.generate_content_stream(**ask)]
        else:
            chunks = [await client.aio.models.generate_content(**ask)]
        answer = go_on(contents, [part for one in chunks for part in one.candidates[0].content.parts or []])
        if answer is not None:
            return answer


def automatic(client: Any) -> str:
    """The SDK calls the functions by itself."""
    config = types.GenerateContentConfig(system_instruction=SYSTEM, tools=list(TOOLS.values()))
    return str(client.models.generate_content(model=MODEL, contents=TASK, config=config).text)


if __name__ == "__main__":
    made, stream = genai.Client(), "stream" in sys.argv
    if "automatic" in sys.argv:
        print(automatic(made))
    else:
        print(asyncio.run(arun(made, stream)) if "async" in sys.argv else run(made, stream))
