// A model that does what the test wrote into the message: an OpenAI chat-completions server for one host under test.
//
//     PLAY:[[{"name":"write","arguments":{...}}, ...], ...]     one list of tool calls for each turn of the model
//     SAY:text that ends at the end of the line                 what it answers when the turns are played
//     FAIL:400                                                  the status with which it fails instead
//
// Every request is kept: GET /seen gives them, oldest first, as {id, text, system, calls, results, at, answered}, the
// last two in milliseconds. The first line on standard output is the port.
import http from "node:http";

const seen = [];

function textOf(content) {
    if (typeof content === "string") return content;
    return Array.isArray(content) ? content.map((part) => part.text ?? "").join("\n") : "";
}

/** The text of the JSON value that begins at `start`. */
function jsonAt(text, start) {
    let depth = 0;
    let quoted = false;
    for (let at = start; at < text.length; at++) {
        const sign = text[at];
        if (quoted) {
            if (sign === "\\") at++;
            else if (sign === '"') quoted = false;
        } else if (sign === '"') quoted = true;
        else if (sign === "[" || sign === "{") depth++;
        else if ((sign === "]" || sign === "}") && --depth === 0) return text.slice(start, at + 1);
    }
    throw new Error("the script does not end");
}

/** The script of a message: the last that is whole. A brief quotes the beginnings of others' messages. */
function scriptOf(text) {
    for (let start = text.lastIndexOf("PLAY:["); start >= 0; start = start && text.lastIndexOf("PLAY:[", start - 1)) {
        try {
            const written = jsonAt(text, start + "PLAY:".length);
            return { turns: JSON.parse(written), rest: text.slice(start + "PLAY:".length + written.length) };
        } catch {
            if (!start) break;
        }
    }
    return { turns: [], rest: text };
}

/** What the host adds to the conversation by itself is nobody's message. */
function added(message) {
    return textOf(message.content).trimStart().startsWith("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>");
}

function answerTo(messages, id, at) {
    const asked = messages.findLastIndex((one) => one.role === "user" && !added(one));
    const text = asked < 0 ? "" : textOf(messages[asked].content);
    const since = messages.slice(asked + 1);
    const results = since.filter((one) => one.role === "tool").map((one) => textOf(one.content));
    const system = messages
        .filter((one) => one.role === "system")
        .map((one) => textOf(one.content))
        .join("\n");
    const { turns, rest } = scriptOf(text);
    const calls = turns[since.filter((one) => one.role === "assistant").length];
    const kept = { id, text, system, results, calls: calls ?? [], at };
    seen.push(kept);
    if (calls) {
        const made = calls.map((call, index) => ({
            index,
            id: call.id ?? `call_${id}_${index}`,
            type: "function",
            function: { name: call.name, arguments: JSON.stringify(call.arguments) },
        }));
        return { kept, delta: { tool_calls: made }, finish: "tool_calls" };
    }
    const said = /SAY:(.*)/.exec(rest)?.[1] ?? `All is done. ${results.at(-1) ?? ""}`;
    return { kept, delta: { content: said }, finish: "stop" };
}

async function bodyOf(request) {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const text = Buffer.concat(pieces).toString();
    return text ? JSON.parse(text) : {};
}

const server = http.createServer(async (request, response) => {
    const json = (value) => {
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify(value));
    };
    if (request.url === "/seen") return json(seen);
    const at = performance.timeOrigin + performance.now();
    const body = await bodyOf(request);
    if (!request.url.endsWith("/chat/completions"))
        return json({ object: "list", data: [{ id: "fake-1", object: "model" }] });
    const id = seen.length + 1;
    const { kept, delta, finish } = answerTo(body.messages ?? [], id, at);
    const status = /FAIL:(\d+)/.exec(kept.text)?.[1];
    if (status) {
        response.writeHead(Number(status), { "content-type": "application/json" });
        return response.end(JSON.stringify({ error: { message: "the model is out of order", type: "test" } }));
    }
    const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 };
    const head = { id: `chat-${id}`, created: 1, model: body.model };
    if (!body.stream) {
        const message = { role: "assistant", content: null, ...delta };
        return json({
            ...head,
            object: "chat.completion",
            choices: [{ index: 0, message, finish_reason: finish }],
            usage,
        });
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const chunk = (piece, finish_reason, more) => {
        const choices = [{ index: 0, delta: piece, finish_reason }];
        response.write(`data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", choices, ...more })}\n\n`);
    };
    chunk({ role: "assistant", content: "" }, null);
    chunk(delta, null);
    chunk({}, finish, { usage });
    response.end("data: [DONE]\n\n");
    kept.answered = performance.timeOrigin + performance.now();
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
