// Any language: Node's own fetch, no SDK.
const stream = process.argv.includes("stream");
const base = process.env.OPENAI_BASE_URL;
const celsius = { Oslo: 4, Rome: 21, Lima: 18 };
const tools = {
  weather: ({ city }) => `${city}: ${celsius[city]} C`,
  pack: ({ celsius }) => (celsius < 10 ? "a coat" : "a shirt"),
};
const offered = Object.keys(tools).map((name) => ({ type: "function", function: { name } }));
const messages = [{ role: "user", content: "I fly to Oslo and to Rome. What do I pack?" }];

async function ask() {
  const answer = await fetch(`${base}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${process.env.OPENAI_API_KEY}` },
    body: JSON.stringify({ model: "gpt-test", messages, tools: offered, stream }),
  });
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  if (!stream) return (await answer.json()).choices[0].message;
  const said = { role: "assistant", content: "", tool_calls: [] };
  let text = "";
  for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) text += chunk;
  for (const line of text.split("\n")) {
    if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
    const delta = JSON.parse(line.slice(6)).choices[0]?.delta ?? {};
    said.content += delta.content ?? "";
    for (const { index, ...call } of delta.tool_calls ?? []) {
      if (said.tool_calls[index]) said.tool_calls[index].function.arguments += call.function.arguments;
      else said.tool_calls[index] = call;
    }
  }
  return said;
}

for (;;) {
  const said = await ask();
  messages.push(said);
  if (!said.tool_calls?.length) {
    console.log(said.content);
    break;
  }
  for (const call of said.tool_calls) {
    const content = tools[call.function.name](JSON.parse(call.function.arguments));
    messages.push({ role: "tool", tool_call_id: call.id, content });
  }
}
