"""The agents behind the bundled recordings: small, real tool loops over HTTP, and simulated models.

The agents are ordinary: they post chat requests with httpx, run their tools, and post again. Only the
model is simulated (``SimulatedUpstream`` with one of the policies here), so that the demonstration
needs no key and no network. ``data/make_data.py`` records the pairs with these agents.

====== ================== ===============================================================
pair   wire shape         what is true of it
====== ================== ===============================================================
refund OpenAI chat        one step (the wrong policy looked up) makes the run fail
trip   Anthropic messages two steps must both be repaired
report OpenAI chat        the runs part early, and that step causes nothing
====== ================== ===============================================================
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from afnb.core.jsonvalue import dumps, loads
from afnb.core.run import Run
from afnb.io.answers import Call, Say
from afnb.io.conversation import Conversation
from afnb.io.simulated import Mix, Policy

if TYPE_CHECKING:
    from afnb.experiments.context import AgentContext

Tool = Callable[..., Any]
MAX_TURNS = 12


@dataclass(frozen=True)
class ToolLoop:
    """An agent: asks the model, runs the tools it calls, and returns its last text.

    Parameters
    ----------
    task, system
        The user's message and the system prompt.
    tools
        Name to plain function; arguments are passed by name.
    shape
        ``openai.chat`` or ``anthropic.messages``.
    turns
        After so many questions without a last word it gives up.
    """

    task: str
    system: str
    tools: Mapping[str, Tool]
    shape: str = "openai.chat"
    model: str = "simulated-1"
    turns: int = MAX_TURNS

    def __call__(self, ctx: AgentContext) -> str:
        """Run the loop once against ``ctx``."""
        with ctx.http_client() as client:
            turn = self._chat if self.shape == "openai.chat" else self._messages
            messages: list[dict[str, Any]] = [{"role": "user", "content": self.task}]
            for _ in range(self.turns):
                text, calls = turn(client, messages)
                if not calls:
                    return text
            return "gave up"

    def _run_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        tool = self.tools.get(name)
        return {"error": f"no tool {name}"} if tool is None else tool(**arguments)

    def _chat(self, client: Any, messages: list[dict[str, Any]]) -> tuple[str, int]:
        tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in self.tools]
        system = {"role": "system", "content": self.system}
        body = {"model": self.model, "messages": [system, *messages], "tools": tools}
        answer = client.post("/v1/chat/completions", json=body).raise_for_status().json()
        said = answer["choices"][0]["message"]
        messages.append(said)
        calls = said.get("tool_calls") or []
        for call in calls:
            result = self._run_tool(call["function"]["name"], loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": dumps(result)})
        return said.get("content") or "", len(calls)

    def _messages(self, client: Any, messages: list[dict[str, Any]]) -> tuple[str, int]:
        tools = [{"name": name, "input_schema": {"type": "object"}} for name in self.tools]
        body = {
            "model": self.model,
            "max_tokens": 512,
            "system": self.system,
            "messages": messages,
            "tools": tools,
        }
        answer = client.post("/v1/messages", json=body).raise_for_status().json()
        blocks = answer["content"]
        messages.append({"role": "assistant", "content": blocks})
        results = [
            {
                "type": "tool_result",
                "tool_use_id": b["id"],
                "content": dumps(self._run_tool(b["name"], b["input"])),
            }
            for b in blocks
            if b["type"] == "tool_use"
        ]
        if results:
            messages.append({"role": "user", "content": results})
        return "".join(b["text"] for b in blocks if b["type"] == "text"), len(results)


def _say(text: str, tool: str, **arguments: Any) -> Say:
    return Say(text, (Call(tool, arguments),))


# -- refund: one cause ---------------------------------------------------------------------------

ORDER = {"order": "8841", "item": "noise-cancelling headset", "price": 129.0, "days_since_delivery": 12}
WINDOWS = {"electronics": 30, "accessories": 7}


def lookup_order(order: str) -> dict[str, Any]:
    """The order, as a support desk would see it."""
    return ORDER if order == ORDER["order"] else {"error": f"no order {order}"}


def customer_history(order: str) -> dict[str, Any]:
    """How the customer behaved so far."""
    return {"order": order, "customer_since": 2021, "refunds": 0}


def refund_policy(category: str) -> dict[str, Any]:
    """Days within which a category may be returned."""
    return {"category": category, "return_window_days": WINDOWS.get(category, 14)}


def issue_refund(order: str, amount: float) -> dict[str, Any]:
    """Pretends to refund; nothing outside this function changes."""
    return {"order": order, "refunded": amount, "status": "paid"}


def refund_model(talk: Conversation, rng: random.Random) -> Any:
    """Mostly looks up the right policy; once it has looked up a wrong one, it believes it."""
    if not talk.called("lookup_order"):
        return _say("I look at the order first.", "lookup_order", order="8841")
    if not talk.called("customer_history"):
        return _say("Now the customer's history, to rule out abuse.", "customer_history", order="8841")
    policy = talk.result_of("refund_policy")
    if policy is None:
        right = _say(
            "A headset is an electronic device: its policy decides.", "refund_policy", category="electronics"
        )
        wrong = _say(
            "Headsets count as small extras, so look there.", "refund_policy", category="accessories"
        )
        return Mix([(0.85, right), (0.15, wrong)])
    if talk.called("issue_refund"):
        ending = rng.choice(["the customer has been told", "Dana will see it in three days", "ticket closed"])
        return f"Refund of $129.00 issued for order 8841; {ending}."
    pay = _say(
        "Delivered 12 days ago, within the window: pay it back.", "issue_refund", order="8841", amount=129.0
    )
    ending = rng.choice(["no refund is due", "nothing can be paid back", "the customer keeps the headset"])
    decline = f"Declined: order 8841 is outside its return window, {ending}."
    within = policy["return_window_days"] >= ORDER["days_since_delivery"]
    return Mix([(0.97, pay), (0.03, decline)]) if within else Mix([(0.97, decline), (0.03, pay)])


def refund_paid(run: Run) -> bool:
    """Whether the run ended with the refund."""
    return "Refund of $129.00 issued" in str(run.answer)


# -- trip: two causes ----------------------------------------------------------------------------


def calendar(month: str) -> dict[str, Any]:
    """When the conference is."""
    return {"month": month, "conference": "14 to 16 October", "free_from": "13 October"}


def find_flights(date: str) -> dict[str, Any]:
    """Flights of a day."""
    return {"date": date, "flights": [{"number": "LX1423", "price": 212, "currency": "EUR"}]}


def currency_rate(pair: str) -> dict[str, Any]:
    """A fixed rate."""
    return {"pair": pair, "rate": {"EUR/CHF": 0.94, "EUR/USD": 1.08}.get(pair, 1.0)}


def book_trip(date: str, amount: float, currency: str) -> dict[str, Any]:
    """Pretends to book."""
    return {"booked": date, "charged": amount, "currency": currency}


def trip_model(talk: Conversation, rng: random.Random) -> Any:
    """Gets the date wrong half of the time and the currency nearly always."""
    if not talk.called("calendar"):
        return _say("When is the conference?", "calendar", month="October")
    flights = talk.result_of("find_flights")
    if flights is None:
        right = _say("Arriving the day before leaves time to settle in.", "find_flights", date="13 October")
        wrong = _say("Fly out on the morning it begins and save a night.", "find_flights", date="14 October")
        return Mix([(0.5, right), (0.5, wrong)])
    rate = talk.result_of("currency_rate")
    if rate is None:
        right = _say("The team's card is Swiss: charge francs.", "currency_rate", pair="EUR/CHF")
        wrong = _say("Travel is usually settled in dollars.", "currency_rate", pair="EUR/USD")
        return Mix([(0.04, right), (0.96, wrong)])
    date, money = flights["date"], rate["pair"].split("/")[1]
    if not talk.called("book_trip"):
        return _say("Everything is known; book it.", "book_trip", date=date, amount=212.0, currency=money)
    return f"Booked for {date}, charged in {money}."


def trip_right(run: Run) -> bool:
    """Whether date and currency are right."""
    return bool(run.answer == "Booked for 13 October, charged in CHF.")


# -- report: no cause ----------------------------------------------------------------------------


def search(query: str) -> dict[str, Any]:
    """Two pages that say the same in other words."""
    if "census" in query:
        return {"hits": ["statistics office, table 3: residents 4.2 million, counted in spring"]}
    return {"hits": ["newspaper archive: about 4.2 million people were living there last year"]}


def second_source(topic: str) -> dict[str, Any]:
    """Another page."""
    return {"topic": topic, "note": "an older edition of the atlas says 3.9 million"}


def report_model(talk: Conversation, rng: random.Random) -> Any:
    """Searches with either of two queries, may check again, and reads the number wrongly most of the time."""
    if not talk.called("search"):
        one = _say("An official count would be best.", "search", query="census residents table")
        other = _say("Let me see what newspapers wrote lately.", "search", query="how many people live there")
        return Mix([(0.5, one), (0.5, other)])
    if not talk.called("second_source"):
        again = _say("One source is thin; a second one helps.", "second_source", topic="population")
        return Mix([(0.5, again), (0.5, report_answer(talk))])
    return report_answer(talk)


def report_answer(talk: Conversation) -> Mix:
    """The final text; a hint to quote the newest figure helps a little, the search phrase not at all."""
    right = 0.45 if talk.says("quote the newest figure") else 0.1
    good = "The region has 4.2 million inhabitants."
    return Mix(
        [(right, good), (1 - right, "Roughly 3.9 million persons were resident, according to an atlas.")]
    )


def report_right(run: Run) -> bool:
    """Whether the number is right."""
    return "4.2 million" in str(run.answer)


@dataclass(frozen=True)
class Pair:
    """One bundled pair: its agent, the simulated model, and what counts as success."""

    name: str
    agent: ToolLoop
    model: Policy
    success: Callable[[Run], bool]
    meaning: str

    @property
    def tools(self) -> tuple[str, ...]:
        """Tools of the agent; all are pure functions and safe to run again."""
        return tuple(self.agent.tools)


PAIRS: dict[str, Pair] = {
    "refund": Pair(
        "refund",
        ToolLoop(
            "Dana asks for her money back for order 8841. Decide and act.",
            "You are a support agent. Look things up before you decide.",
            {
                "lookup_order": lookup_order,
                "customer_history": customer_history,
                "refund_policy": refund_policy,
                "issue_refund": issue_refund,
            },
        ),
        refund_model,
        refund_paid,
        "one step, the wrong policy looked up, makes the run fail",
    ),
    "trip": Pair(
        "trip",
        ToolLoop(
            "Book my trip to the October conference on the team's card.",
            "You are a travel assistant.",
            {
                "calendar": calendar,
                "find_flights": find_flights,
                "currency_rate": currency_rate,
                "book_trip": book_trip,
            },
            "anthropic.messages",
        ),
        trip_model,
        trip_right,
        "two steps, date and currency, must both be repaired",
    ),
    "report": Pair(
        "report",
        ToolLoop(
            "How many people live in the region? Answer in one sentence.",
            "You are a research assistant.",
            {"search": search, "second_source": second_source},
        ),
        report_model,
        report_right,
        "the runs part at the first search, and that causes nothing",
    ),
}
"""The bundled pairs by name."""
