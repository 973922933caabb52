// A Bot API of Telegram's for one host under test. POST /push {"text"} is a message from the only person there is; GET
// /seen gives what the host asked, oldest first, as {method, params}; getUpdates is answered as soon as there is
// something, and not kept. The first line on standard output is the port.
import http from "node:http";

const CHAT = 42;
const seen = [];
let updates = [];
let next = 100;
let message = 1000;
const waiting = new Set();

async function bodyOf(request) {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const text = Buffer.concat(pieces).toString();
    try {
        return JSON.parse(text);
    } catch {
        return { raw: text };
    }
}

function push(text) {
    const from = { id: CHAT, is_bot: false, first_name: "Ann", username: "ann" };
    const chat = { id: CHAT, type: "private", first_name: "Ann" };
    const date = Math.floor(Date.now() / 1000);
    updates.push({ update_id: next++, message: { message_id: message++, date, chat, from, text } });
    for (const wake of waiting) wake();
}

/** What has not been confirmed yet; waits for it, as the Bot API does. */
function pending(offset, seconds) {
    updates = updates.filter((update) => update.update_id >= offset);
    if (updates.length || !seconds) return Promise.resolve(updates);
    return new Promise((resolve) => {
        const wake = () => {
            clearTimeout(timer);
            waiting.delete(wake);
            resolve(updates.filter((update) => update.update_id >= offset));
        };
        const timer = setTimeout(wake, seconds * 1000);
        waiting.add(wake);
    });
}

async function answerTo(method, params) {
    if (method === "getMe") return { id: 7, is_bot: true, first_name: "Bot", username: "callosum_test_bot" };
    if (method === "getUpdates") return pending(params.offset ?? 0, Math.min(params.timeout ?? 5, 5));
    if (!method.startsWith("send") && !method.startsWith("edit")) return true;
    if (method === "sendChatAction") return true;
    const chat = { id: Number(params.chat_id) || CHAT, type: "private" };
    return {
        message_id: message++,
        date: 1,
        chat,
        from: { id: 7, is_bot: true, first_name: "Bot" },
        text: params.text,
    };
}

const server = http.createServer(async (request, response) => {
    const json = (value) => {
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify(value));
    };
    const method = request.url.split("?")[0].split("/").at(-1);
    if (method === "seen") return json(seen);
    const params = await bodyOf(request);
    if (method === "push") {
        push(params.text);
        return json({ ok: true });
    }
    if (method !== "getUpdates") seen.push({ method, params });
    json({ ok: true, result: await answerTo(method, params) });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
