"""langgraph over langchain-openai: a graph of a model and its tools."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from task import SYSTEM, TASK, pack, weather

ASK = {"messages": [("system", SYSTEM), ("user", TASK)]}


def graph(model: Any, *, awaited: bool = False) -> Any:
    tools = [tool(weather), tool(pack)]
    able = model.bind_tools(tools)

    def ask(state: Any) -> Any:
        return {"messages": [able.invoke(state["messages"])]}

    async def ask_async(state: Any) -> Any:
        return {"messages": [await able.ainvoke(state["messages"])]}

    built = StateGraph(MessagesState)
    built.add_node("model", ask_async if awaited else ask)
    built.add_node("tools", ToolNode(tools))
    built.add_edge(START, "model")
    built.add_conditional_edges("model", tools_condition)
    built.add_edge("tools", "model")
    return built.compile()


def last(state: Any) -> str:
    content = state["messages"][-1].content
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def run(model: Any, stream: bool = False) -> str:
    if stream:
        return last(list(graph(model).stream(ASK, stream_mode="values"))[-1])
    return last(graph(model).invoke(ASK))


async def arun(model: Any, stream: bool = False) -> str:
    built = graph(model, awaited=True)
    if stream:
        return last([state async for state in built.astream(ASK, stream_mode="values")][-1])
    return last(await built.ainvoke(ASK))


if __name__ == "__main__":
    stream = "stream" in sys.argv
    made = ChatOpenAI(model="gpt-test", streaming=stream, use_responses_api="responses" in sys.argv)
    print(asyncio.run(arun(made, stream)) if "async" in sys.argv else run(made, stream))
