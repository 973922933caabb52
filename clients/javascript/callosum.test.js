/** The client against a real server that answers by script: `node --test`. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { readFile, writeFile, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir, uptime } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import vm from "node:vm";

import * as module from "./callosum.js";

const { Blocked, CallosumClient, CallosumError, GateUnavailable } = module;

const HERE = new URL(".", import.meta.url);
/** For calls that are to end at it, and for those that are not, in milliseconds. */
const DEADLINE = 200;
const AMPLE = 20_000;
const TOOLS = { read: 0, write: 1, message: 2, send_email: 3, bash: 1, pay: 4 };
const MOMENT = 1_800_000_000_000_000;

// --- the peer: a real server whose answers are listed in advance -------------------------------

class Peer {
    requests = [];
    #scripts = new Map([["GET /fallback", [{ tools: {} }]]]);
    #waiting = [];
    #server = null;
    #port = 0;

    static async start(t) {
        const peer = new Peer();
        await peer.start();
        t.after(() => peer.stop());
        return peer;
    }

    get url() {
        return `http://127.0.0.1:${this.#port}`;
    }

    /** What a place answers, one after the other; the last again and again. */
    on(name, ...answers) {
        this.#scripts.set(name, answers);
        return this;
    }

    seen(name) {
        return this.requests.filter((request) => request.name === name);
    }

    /** The request number `count` to a place, once it is here. */
    async nth(name, count = 1) {
        while (this.seen(name).length < count) await new Promise((resolve) => this.#waiting.push(resolve));
        return this.seen(name)[count - 1];
    }

    async start() {
        this.#server = createServer((request, response) => this.#answer(request, response));
        this.#server.listen(this.#port, "127.0.0.1");
        await once(this.#server, "listening");
        this.#port = this.#server.address().port;
    }

    async stop() {
        if (!this.#server?.listening) return;
        const closed = once(this.#server, "close");
        this.#server.close();
        this.#server.closeAllConnections();
        await closed;
    }

    async #answer(incoming, response) {
        const { pathname, searchParams } = new URL(incoming.url, this.url);
        const place = pathname.startsWith("/lock/") ? "/lock/" : pathname;
        const parts = [];
        try {
            for await (const part of incoming.setEncoding("utf8")) parts.push(part);
        } catch {
            return; // whoever asked has gone
        }
        const text = parts.join("");
        const said = text ? JSON.parse(text) : undefined;
        const { deadline, timeoutMs, ...body } = isPlain(said) ? said : {};
        const request = {
            name: `${incoming.method} ${place}`,
            path: incoming.url.split("?")[0],
            query: Object.fromEntries(searchParams),
            keys: searchParams.getAll("key"),
            headers: incoming.headers,
            text,
            body: isPlain(said) ? body : said,
            limits: { deadline, timeoutMs },
        };
        this.requests.push(request);
        const script = this.#scripts.get(request.name) ?? [status(404, { error: "no such place", at: "path" })];
        const answer = script.length > 1 ? script.shift() : script[0];
        for (const resolve of this.#waiting.splice(0)) resolve();
        if (typeof answer === "function") answer(response, request);
        else status(200, answer)(response);
    }
}

function isPlain(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}

function status(code, body) {
    return (response) => {
        const text = typeof body === "string" ? body : JSON.stringify(body);
        response.writeHead(code, { "content-type": "application/json" }).end(text);
    };
}

const hang = () => {};
const cut = (response) => response.destroy();
const slow = (response) => response.writeHead(200, { "content-length": 1000 }).write('{"proceed": tr');
const half = (response) => {
    response.writeHead(200, { "content-length": 1000 });
    response.write('{"proceed": true', () => response.destroy());
};

function stream(...chunks) {
    return (response) => {
        response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" }).flushHeaders();
        for (const chunk of chunks) response.write(chunk);
    };
}

function streamThenCut(...chunks) {
    return (response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        const last = chunks.pop();
        for (const chunk of chunks) response.write(chunk);
        response.write(last, () => response.destroy());
    };
}

function decision(more = {}) {
    const answer = { proceed: true, tier: 3, contextKey: "email:alice@example.com", id: MOMENT, verdict: "allow" };
    return { ...answer, contextKeys: ["email:alice@example.com"], rule: "email-send", ...more };
}

function leased(seconds) {
    return decision({ lease: { token: MOMENT, expires: MOMENT / 1e6 + seconds, ttl: seconds } });
}

const BLOCK = decision({ proceed: false, verdict: "block", warning: "[Callosum] Conflict: doug." });
const OK = { ok: true };

function client(peer, more = {}) {
    const url = peer.url;
    return new CallosumClient({ url, instance: "mira", session: "chat", deadline: AMPLE, fallback: TOOLS, ...more });
}

/** A `fetch` with which time passes where an attempt fails: the third is the last, however busy the machine is. */
function failing(t) {
    const now = performance.now.bind(performance);
    let passed = 0;
    t.mock.method(performance, "now", () => now() + passed);
    return async (...request) => {
        let [failed, response] = [true];
        try {
            response = await fetch(...request);
            failed = response.status === 503;
        } catch (error) {
            failed = error.name !== "AbortError";
            throw error;
        } finally {
            if (failed) passed += 0.4 * AMPLE;
        }
        return response;
    };
}

/** A client whose gate nobody reaches: a real port at which nobody listens. */
async function lonely(t, more = {}) {
    const peer = await Peer.start(t);
    await peer.stop();
    return { peer, gate: client(peer, { fetch: failing(t), ...more }) };
}

async function thrown(kind, act) {
    try {
        await act();
    } catch (error) {
        assert.ok(error instanceof kind, `expected ${kind.name}, got ${error.stack}`);
        return error;
    }
    return assert.fail(`expected ${kind.name}`);
}

// --- asking ------------------------------------------------------------------------------------

describe("intercept", () => {
    test("sends the call and its actor, and returns the decision", async (t) => {
        const peer = (await Peer.start(t)).on("POST /intercept", decision());
        const gate = client(peer, { namespace: "work", token: "secret-1" });
        const call = { tool: "send_email", action: "send", params: { to: "alice@example.com" }, callId: "toolu_1" };
        const answer = await gate.intercept({ ...call, cwd: "/repo", pause: true, run: "r1" });
        assert.deepEqual(answer, { ...decision(), callId: "toolu_1" });
        const [{ body, headers }] = peer.requests;
        const who = { instance: "mira", session: "chat", namespace: "work" };
        const { dispatch, ...said } = body;
        assert.match(dispatch, /^[0-9a-f-]{36}$/);
        assert.deepEqual(said, { ...who, ...call, cwd: "/repo", pause: true, run: "r1" });
        assert.equal(headers.authorization, "Bearer secret-1");
        assert.equal(headers["content-type"], "application/json");
    });

    test("speaks for another session where the call says so", async (t) => {
        const peer = (await Peer.start(t)).on("POST /intercept", decision()).on("POST /complete", OK);
        const gate = client(peer);
        const answer = await gate.intercept({ tool: "x", instance: "doug", session: "heartbeat" });
        await gate.complete(answer, { sent: true });
        for (const { body } of peer.requests) {
            assert.equal(body.instance, "doug");
            assert.equal(body.session, "heartbeat");
        }
    });

    test("takes the address and the name as old clients did", async (t) => {
        const peer = (await Peer.start(t)).on("POST /intercept", decision());
        const answer = await new CallosumClient(`${peer.url}/`, "mira").intercept({ tool: "x" });
        assert.equal(answer.proceed, true);
        const { callId } = answer;
        assert.deepEqual(peer.requests[0].body, { instance: "mira", tool: "x", callId, dispatch: callId });
    });

    test("makes a call id where there is none, another for each call", async (t) => {
        const peer = (await Peer.start(t)).on("POST /intercept", decision());
        const gate = client(peer);
        await gate.intercept({ tool: "x" });
        await gate.intercept({ tool: "x", callId: undefined });
        const [one, other] = peer.requests.map(({ body }) => body.callId);
        assert.match(one, /^[0-9a-f-]{36}$/);
        assert.notEqual(one, other);
    });

    test("fills in what an answer leaves out because it is empty", async (t) => {
        const { contextKeys, rule, ...bare } = decision({ contextKey: null });
        const peer = (await Peer.start(t)).on("POST /intercept", bare);
        const answer = await client(peer).intercept({ tool: "x" });
        assert.deepEqual([answer.contextKeys, answer.rule], [[], ""]);
    });

    const failures = {
        "a 503": status(503, { error: "the disk is full" }),
        "a 502 of a proxy": status(502, "<html>Bad Gateway</html>"),
        "a 504": status(504, ""),
        "a 429": status(429, { error: "too many requests" }),
        "a 500": status(500, { error: "internal" }),
        "a 404 of another program": status(404, "<html>not here</html>"),
        "no JSON": status(200, "It works!"),
        "no UTF-8": (response) => response.writeHead(200).end(Buffer.from([0x7b, 0xff, 0xfe])),
        "a list": status(200, []),
        null: status(200, "null"),
        "no verdict": status(200, { proceed: true, tier: 0, contextKey: null }),
        "a verdict that contradicts itself": status(200, decision({ verdict: "block" })),
        "a tier that is none": status(200, decision({ tier: 7 })),
        "a cut connection": cut,
        "a cut answer": half,
    };
    for (const [name, failure] of Object.entries(failures)) {
        test(`repeats the call under its id after ${name}`, async (t) => {
            const peer = (await Peer.start(t)).on("POST /intercept", failure, decision());
            const answer = await client(peer).intercept({ tool: "send_email" });
            assert.equal(answer.fallback, undefined);
            const [first, second, ...more] = peer.seen("POST /intercept");
            assert.equal(more.length, 0);
            assert.deepEqual(first.body, second.body);
            assert.equal(first.body.callId, answer.callId);
        });
    }

    test("says with each attempt how long it still waits", async (t) => {
        const peer = (await Peer.start(t)).on("POST /intercept", status(503, ""), decision());
        peer.on("POST /lock", { acquired: true });
        const began = performance.now();
        await client(peer).intercept({ tool: "send_email", wait: 1 });
        await client(peer).lock("doc:plan");
        const [first, second] = peer.seen("POST /intercept").map(({ limits }) => limits);
        const [lock] = peer.seen("POST /lock").map(({ limits }) => limits);
        const up = uptime();
        const passed = performance.now() - began;
        assert.ok(first.timeoutMs <= AMPLE + 1000 && first.timeoutMs > AMPLE + 1000 - passed - 1);
        assert.ok(second.timeoutMs < first.timeoutMs && second.timeoutMs > first.timeoutMs - passed - 1);
        assert.ok(lock.timeoutMs <= AMPLE && lock.timeoutMs > AMPLE - passed - 1);
        if (!process.getBuiltinModule || process.platform !== "linux") return;
        const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
        for (const { deadline, timeoutMs } of [first, second, lock]) {
            assert.match(deadline, /^[0-9a-f-]{36}:\d+\.\d{3}$/);
            assert.equal(deadline.split(":")[0], boot);
            const left = (Number(deadline.split(":")[1]) - up) * 1000;
            assert.ok(left <= timeoutMs + 20 && left > timeoutMs - passed - 20);
        }
    });

    test("tries again where the gate found that the deadline had passed", async (t) => {
        const expired = status(408, { error: "the deadline has passed", at: "deadline" });
        const peer = (await Peer.start(t)).on("POST /intercept", expired, decision());
        assert.equal((await client(peer).intercept({ tool: "send_email" })).proceed, true);
    });

    test("names the decision that may be in force although it could not be confirmed", async (t) => {
        const unconfirmed = status(503, { error: "not on disk", at: "store", id: MOMENT });
        // the next attempts say less or are cut: what the gate said before still holds
        const full = status(503, { error: "no room left", at: "store" });
        const peer = (await Peer.start(t)).on("POST /intercept", unconfirmed, full, cut).on("POST /lock", unconfirmed, cut);
        const gate = client(peer, { fetch: failing(t) });
        for (const act of [() => gate.intercept({ tool: "read_file" }), () => gate.lock("doc:plan")]) {
            const error = await thrown(GateUnavailable, act);
            assert.deepEqual([error.status, error.at, error.id], [503, "store", MOMENT]);
            assert.match(error.message, /not on disk/);
        }
        const { id } = await thrown(GateUnavailable, () => lonely(t).then((one) => one.gate.intercept({ tool: "pay" })));
        assert.equal(id, null);
    });

    test("follows no redirect: the token is for this gate", async (t) => {
        const other = (await Peer.start(t)).on("POST /intercept", decision());
        const away = (response) => response.writeHead(307, { location: `${other.url}/intercept` }).end();
        const peer = (await Peer.start(t)).on("POST /intercept", away);
        const gate = client(peer, { token: "secret", fetch: failing(t) });
        await thrown(GateUnavailable, () => gate.intercept({ tool: "pay" }));
        assert.equal(other.requests.length, 0);
    });

    test("throws what the gate refuses, at once and with its place", async (t) => {
        const refusal = status(422, { error: "expected 0 to 60 seconds", at: "timeout" });
        const peer = (await Peer.start(t)).on("POST /intercept", refusal);
        const error = await thrown(CallosumError, () => client(peer).intercept({ tool: "send", timeout: -1 }));
        assert.deepEqual([error.name, error.status, error.at], ["CallosumError", 422, "timeout"]);
        assert.equal(error.message, "timeout: expected 0 to 60 seconds");
        assert.equal(peer.requests.length, 1);
    });

    test("32 B.6: lets reads alone run that the gate refuses, and journals the reason", async (t) => {
        const peer = (await Peer.start(t)).on("POST /intercept", status(401, { error: "no such token" }));
        peer.on("POST /late", { accepted: 1 });
        const gate = client(peer);
        const error = await thrown(CallosumError, () => gate.intercept({ tool: "send" }));
        assert.equal(error.status, 401);
        const { proceed, fallback, tier } = await gate.intercept({ tool: "read" });
        assert.deepEqual([proceed, fallback, tier], [true, true, 0]);
        const { body } = await peer.nth("POST /late");
        assert.equal(body.calls[0].why, "no such token");
    });

    const unusable = [
        ["tool", {}],
        ["tool", { tool: "" }],
        ["instance", { tool: "x", instance: "" }],
        ["wait", { tool: "x", wait: 61 }],
        ["wait", { tool: "x", wait: Number.NaN }],
        ["body", { tool: "x", params: { big: 1n } }],
        ["body", { tool: "x", params: { text: "x".repeat(5_000_001) } }],
    ];
    for (const [at, call] of unusable) {
        test(`refuses a call that cannot be sent, at ${at}`, async (t) => {
            const { gate } = await lonely(t);
            const error = await thrown(CallosumError, () => gate.intercept(call));
            assert.deepEqual([error.at, error.status], [at, 0]);
        });
    }

    test("sends half a surrogate pair as U+FFFD, as fetch does", async (t) => {
        const peer = (await Peer.start(t)).on("POST /intercept", decision());
        const params = { half: "\ud83d", other: "\\\udc00", whole: "😀", text: "\\ud83d" };
        await client(peer).intercept({ tool: "x", params });
        const expected = { half: "\ufffd", other: "\\\ufffd", whole: "😀", text: "\\ud83d" };
        assert.deepEqual(peer.requests[0].body.params, expected);
        assert.doesNotMatch(peer.requests[0].text, /[^\\]\\ud/);
    });
});

describe("time", () => {
    for (const [name, answer] of Object.entries({ "a server that hangs": hang, "an answer that hangs": slow })) {
        test(`decides by itself after ${name}`, async (t) => {
            const peer = (await Peer.start(t)).on("POST /intercept", answer);
            const gate = client(peer, { deadline: DEADLINE });
            const began = performance.now();
            const found = await gate.intercept({ tool: "read" });
            assert.equal(found.fallback, true);
            assert.ok(performance.now() - began >= DEADLINE - 5);
            await thrown(GateUnavailable, () => gate.intercept({ tool: "pay" }));
        });
    }

    test("ends in time even if fetch heeds no signal", async () => {
        const gate = client({ url: "http://127.0.0.1:1" }, { deadline: DEADLINE, fetch: () => new Promise(() => {}) });
        assert.equal((await gate.intercept({ tool: "read" })).fallback, true);
    });

    test("gives the gate the time of the wait on top", async (t) => {
        const held = new Promise((resolve) => setTimeout(resolve, 2 * DEADLINE));
        const late = (response) => held.then(() => status(200, decision())(response));
        const peer = (await Peer.start(t)).on("POST /intercept", late);
        const answer = await client(peer, { deadline: DEADLINE }).intercept({ tool: "pay", wait: 20 });
        assert.equal(answer.fallback, undefined);
        assert.equal(peer.requests[0].body.wait, 20);
    });

    test("repeats a wait that was cut for what is left of it", async (t) => {
        const held = new Promise((resolve) => setTimeout(resolve, 2 * DEADLINE));
        const late = (response) => held.then(() => response.destroy());
        const peer = (await Peer.start(t)).on("POST /intercept", late, decision());
        await client(peer, { deadline: DEADLINE }).intercept({ tool: "pay", wait: 20 });
        const [first, second] = peer.seen("POST /intercept").map(({ body }) => body);
        assert.equal(first.callId, second.callId);
        assert.ok(second.wait > 1 && second.wait <= 20 - (2 * DEADLINE - 20) / 1000, `${second.wait}`);
    });

    test("does not wait for a gate that is away as for a key that is held", async (t) => {
        const { gate } = await lonely(t);
        const began = performance.now();
        assert.equal((await gate.intercept({ tool: "read", wait: 60 })).fallback, true);
        assert.ok(performance.now() - began < 30_000);
    });

    test("is over when the signal says so, and nothing is decided", async (t) => {
        const peer = (await Peer.start(t)).on("POST /intercept", hang);
        const stop = new AbortController();
        const asked = client(peer).intercept({ tool: "read" }, { signal: stop.signal });
        await peer.nth("POST /intercept");
        stop.abort();
        assert.equal((await thrown(DOMException, () => asked)).name, "AbortError");
        await thrown(DOMException, () => client(peer).intercept({ tool: "read" }, { signal: stop.signal }));
        assert.equal(peer.requests.length, 1);
    });

    test("is over when the signal says so between two attempts", async (t) => {
        const peer = await Peer.start(t);
        const stop = new AbortController();
        const refuse = (response) => {
            status(503, { error: "stopping" })(response);
            response.on("finish", () => setImmediate(() => stop.abort(new Error("enough"))));
        };
        peer.on("POST /intercept", refuse);
        const asked = client(peer).intercept({ tool: "read" }, { signal: stop.signal });
        assert.equal((await thrown(Error, () => asked)).message, "enough");
    });
});

// --- the gate is away --------------------------------------------------------------------------

describe("without the gate", () => {
    test("lower tiers run, graver ones do not", async (t) => {
        const { gate } = await lonely(t);
        for (const [tool, tier] of Object.entries({ read: 0, write: 1, message: 2 })) {
            const { callId, ...answer } = await gate.intercept({ tool });
            const allow = { proceed: true, tier, contextKey: null, id: 0, verdict: "allow", fallback: true };
            assert.deepEqual(answer, { ...allow, contextKeys: [], rule: "" });
        }
        for (const [tool, tier] of Object.entries({ send_email: 3, pay: 4, never_heard_of: 3, constructor: 3 })) {
            const error = await thrown(GateUnavailable, () => gate.intercept({ tool, callId: "c1" }));
            assert.deepEqual([error.name, error.tier, error.callId], ["GateUnavailable", tier, "c1"]);
            assert.ok(error instanceof CallosumError);
            assert.match(error.message, /ECONNREFUSED.*does not run without it/);
            assert.equal(error.cause.cause.code, "ECONNREFUSED");
        }
    });

    test("what runs commands counts as 3 at least, whatever the table says", async (t) => {
        const names = ["bash", "Bash", "exec", "shell", "run_shell_command", "local_shell", "execute_command"];
        names.push("run_command", "run_terminal_cmd", "terminal", "run_in_terminal", "PowerShell", "mcp__box__bash");
        const fallback = { ...Object.fromEntries(names.map((name) => [name, 0])), BashOutput: 0, shell_: 4 };
        const { gate } = await lonely(t, { fallback });
        const errors = await Promise.all(names.map((tool) => thrown(GateUnavailable, () => gate.intercept({ tool }))));
        assert.deepEqual(
            errors.map(({ tier }) => tier),
            names.map(() => 3),
        );
        assert.equal((await thrown(GateUnavailable, () => gate.intercept({ tool: "shell_" }))).tier, 4);
        assert.equal((await gate.intercept({ tool: "BashOutput" })).tier, 0);
    });

    test("params can raise the tier, as they do at the gate", async (t) => {
        const { gate } = await lonely(t);
        const tier = (_tier) => gate.intercept({ tool: "read", params: { _tier } });
        for (const [said, expected] of [
            [3, 3],
            ["4", 4],
            [2.5, 3],
            [99, 4],
        ]) {
            assert.equal((await thrown(GateUnavailable, () => tier(said))).tier, expected);
        }
        for (const [said, expected] of [
            [1, 1],
            [-1, 0],
            ["high", 0],
            [null, 0],
        ]) {
            assert.equal((await tier(said)).tier, expected);
        }
    });

    test("nothing is decided where the gate is there and its store is not", async (t) => {
        const peer = (await Peer.start(t)).on(
            "POST /intercept",
            status(503, { error: "the disk is full", at: "store" }),
        );
        const gate = client(peer, { fetch: failing(t) });
        const error = await thrown(GateUnavailable, () => gate.intercept({ tool: "read" }));
        assert.deepEqual([error.status, error.at, error.tier], [503, "store", null]);
        assert.match(error.message, /the disk is full/);
        assert.ok(peer.requests.length > 1);
        peer.on("POST /intercept", status(503, { error: "the server is stopping" }));
        assert.equal((await gate.intercept({ tool: "read" })).fallback, true);
    });

    test("a gate that has too much to do is not asked again at once", async (t) => {
        const peer = (await Peer.start(t)).on("POST /intercept", status(503, { error: "too much", at: "load" }));
        const gate = client(peer, { fetch: failing(t) });
        const began = Date.now();
        assert.equal((await gate.intercept({ tool: "read" })).fallback, true);
        assert.ok(Date.now() - began > 295 * (peer.requests.length - 1) && peer.requests.length === 3);
    });

    test("before the gate was ever reached the hosts' own reads go on, and everything else counts as 3", async (t) => {
        const { gate } = await lonely(t, { fallback: undefined });
        assert.equal((await gate.intercept({ tool: "Read" })).tier, 0);
        assert.equal((await thrown(GateUnavailable, () => gate.intercept({ tool: "reads" }))).tier, 3);
        assert.equal((await thrown(GateUnavailable, () => gate.intercept({ tool: "Bash" }))).tier, 3);
    });

    test("the gate is asked for its table once, and it is kept", async (t) => {
        const peer = (await Peer.start(t)).on("POST /intercept", decision());
        peer.on("GET /fallback", { tools: { read: 0, pay: 4 } });
        const gate = client(peer, { fallback: undefined, fetch: failing(t) });
        await gate.intercept({ tool: "read" });
        await gate.flush();
        await gate.intercept({ tool: "read" });
        await gate.flush();
        assert.equal(peer.seen("GET /fallback").length, 1);
        await peer.stop();
        assert.equal((await gate.intercept({ tool: "read" })).tier, 0);
        assert.equal((await thrown(GateUnavailable, () => gate.intercept({ tool: "pay" }))).tier, 4);
    });

    test("a table that makes no sense is not taken, and asked for again", async (t) => {
        const peer = (await Peer.start(t)).on("POST /intercept", decision());
        peer.on("GET /fallback", { tools: { pay: "none" } }, { tools: { read: 0 } });
        const gate = client(peer, { fallback: undefined, fetch: failing(t) });
        for (let count = 1; count <= 2; count++) {
            await gate.intercept({ tool: "read" });
            await gate.flush();
            assert.equal(peer.seen("GET /fallback").length, count);
        }
        await peer.stop();
        assert.equal((await gate.intercept({ tool: "read" })).fallback, true);
    });

    test("a table that is given is not asked for", async (t) => {
        const peer = (await Peer.start(t)).on("GET /status", { locks: [], recentActions: [] });
        const gate = client(peer, { fallback: new Map([["read", 0]]) });
        await gate.status();
        await gate.flush();
        assert.equal(peer.requests.length, 1);
    });

    test("other methods throw, without a tier", async (t) => {
        const { gate } = await lonely(t);
        const error = await thrown(GateUnavailable, () => gate.lock("email:a@b.c"));
        assert.deepEqual([error.tier, error.callId, error.status], [null, null, 0]);
        await thrown(GateUnavailable, () => gate.complete({ id: 5 }));
        await thrown(GateUnavailable, () => gate.status());
    });
});

describe("late calls", () => {
    test("are told with their outcomes before the next decision", async (t) => {
        const { peer, gate } = await lonely(t);
        const one = await gate.intercept({ tool: "write", params: { path: "/a" }, callId: "c1", wait: 1 });
        const two = await gate.intercept({ tool: "message", params: { text: "hi" }, callId: "c2" });
        const report = await gate.complete(one, { ok: true });
        assert.deepEqual([report.ok, report.state], [true, "done"]);
        assert.equal((await gate.complete(two, { error: "no such channel" })).state, "failed");
        assert.equal((await gate.complete(two, { ok: true })).ok, false, "the first report stands");

        await peer.start();
        peer.on("POST /late", { accepted: 2 }).on("POST /intercept", decision());
        await gate.intercept({ tool: "read" });
        const { body } = await peer.nth("POST /late");
        assert.equal(peer.seen("POST /intercept").length, 1, "before it decides");
        const who = { instance: "mira", session: "chat" };
        assert.ok(Math.abs(body.now - Date.now() / 1000) < 60);
        for (const { started, ended } of body.calls) assert.ok(started <= ended && ended <= body.now);
        assert.deepEqual(
            body.calls.map(({ started, ended, ...told }) => told),
            [
                {
                    kind: "call", v: 2, outcome: "done",
                    call: { ...who, tool: "write", params: { path: "/a" }, callId: "c1" },
                },
                {
                    kind: "call", v: 2, outcome: "failed",
                    call: { ...who, tool: "message", params: { text: "hi" }, callId: "c2" },
                },
            ],
        );
        await gate.flush();
        await gate.intercept({ tool: "read" });
        await gate.flush();
        assert.equal(peer.seen("POST /late").length, 1, "once");
    });

    test("are told while they run, and their reports after them", async (t) => {
        const { peer, gate } = await lonely(t);
        const answer = await gate.intercept({ tool: "write", callId: "c1" });
        await peer.start();
        peer.on("POST /late", { accepted: 1 }).on("GET /status", { locks: [], recentActions: [] });
        await gate.status();
        const first = await peer.nth("POST /late");
        assert.deepEqual(
            first.body.calls.map(({ kind, running, call }) => [kind, running, call.tool]),
            [["call", true, "write"]],
        );
        await gate.complete(answer, undefined, { outcome: "unknown" });
        await gate.status();
        const second = await peer.nth("POST /late", 2);
        assert.deepEqual(
            second.body.calls.map(({ kind, outcome, call }) => [kind, outcome, call.callId]),
            [["report", "unknown", "c1"]],
        );
    });

    test("of other kinds are reports that the gate did not get, and calls that were given up", async (t) => {
        const { peer, gate } = await lonely(t);
        await peer.start();
        peer.on("POST /intercept", decision({ id: 7 })).on("POST /complete", cut).on("POST /late", cut);
        const answer = await gate.intercept({ tool: "send_email", callId: "c1" });
        await thrown(GateUnavailable, () => gate.complete(answer, { error: "read timed out" }, { outcome: "unknown" }));
        peer.on("POST /intercept", cut);
        await thrown(GateUnavailable, () => gate.intercept({ tool: "send_email", callId: "c2" }));
        peer.on("POST /late", { accepted: 2 });
        await gate.flush();
        const { calls } = peer.seen("POST /late").at(-1).body;
        assert.deepEqual(
            calls.map(({ kind, id, outcome, call }) => [kind, id, outcome, call.callId]),
            [
                ["report", 7, "unknown", undefined],
                ["cancel", undefined, "cancelled", "c2"],
            ],
        );
    });

    test("are calls that a dying gate received, though the last attempt was turned away", async (t) => {
        const { peer, gate } = await lonely(t);
        await peer.start();
        peer.on("POST /intercept", (response) => response.socket.destroy(), status(503, { error: "it is stopping" }));
        await thrown(GateUnavailable, () => gate.intercept({ tool: "send_email", callId: "c1" }));
        peer.on("POST /late", { accepted: 1 });
        await gate.flush();
        const { calls } = peer.seen("POST /late").at(-1).body;
        assert.deepEqual(
            calls.map(({ kind, call }) => [kind, call.callId]),
            [["cancel", "c1"]],
        );
    });

    test("keep no process alive while the gate is away, however many clients hold some", async (t) => {
        const { peer } = await lonely(t);
        const program = `
            import { CallosumClient } from ${JSON.stringify(new URL("callosum.js", HERE).href)};
            const deadlines = Array.from({ length: 12 }, (_, number) => 600 + 100 * number);
            await Promise.all(deadlines.map(async (deadline) => {
                const gate = new CallosumClient({ url: process.argv[1], instance: "mira", deadline });
                await gate.intercept({ tool: "Read" });
                await gate.complete({ contextKey: "file:/a" }).catch(() => {});
            }));
            console.log("all wait");
        `;
        const words = ["--input-type=module", "--eval", program, peer.url];
        const { stdout } = await promisify(execFile)(process.execPath, words, { timeout: 30_000 });
        assert.equal(stdout, "all wait\n");
    });

    test("are sent at once by flush, also without a report", async (t) => {
        const { peer, gate } = await lonely(t);
        await gate.intercept({ tool: "write" });
        await thrown(GateUnavailable, () => gate.flush());
        await peer.start();
        peer.on("POST /late", { accepted: 1 });
        assert.equal(await gate.flush(), 1);
        assert.equal(await gate.flush(), 0);
        assert.equal(peer.seen("POST /late")[0].body.calls[0].outcome, "done");
    });

    test("are found by tool and params, and by id 0 if there is only one", async (t) => {
        const { peer, gate } = await lonely(t);
        for (const path of ["/a", "/b"]) await gate.intercept({ tool: "write", params: { path } });
        assert.equal((await gate.complete({ id: 0 })).ok, false, "which of the two?");
        const place = { tool: "write", params: { path: "/b" } };
        assert.equal((await gate.complete(place, { error: "disk full" })).ok, true);
        assert.equal((await gate.complete({ id: 0 }, { ok: true })).ok, true);
        assert.equal((await gate.complete({ id: 0 })).ok, false);
        await thrown(GateUnavailable, () => gate.complete(place));
        await peer.start();
        peer.on("POST /late", { accepted: 2 });
        await gate.flush();
        const { calls } = peer.seen("POST /late")[0].body;
        assert.deepEqual(
            calls.map(({ kind, call, outcome }) => [kind, call.params.path, outcome]),
            [
                ["call", "/a", "done"],
                ["call", "/b", "failed"],
                ["report", "/b", "done"], // nothing ran here that it could mean: the gate looks
            ],
        );
    });

    test("are at most a thousand, the newest, in requests of at most five million bytes", async (t) => {
        const peer = await Peer.start(t);
        let away = true;
        let failed = 0; // once all have, the time is over
        const now = performance.now.bind(performance);
        t.mock.method(performance, "now", () => now() + AMPLE * Math.max(0, failed - 1000));
        const fetch = (url, init) => {
            if (!away) return globalThis.fetch(url, init);
            failed += 1;
            return Promise.reject(new TypeError("fetch failed"));
        };
        const gate = client(peer, { fetch });
        const calls = Array.from({ length: 1001 }, (_, at) => ({ tool: "write", callId: `c${at}` }));
        await Promise.all(calls.map((call) => gate.intercept(call)));
        const big = "ä".repeat(1_000_000);
        for (const at of [1, 2, 3]) await gate.intercept({ tool: "write", params: { big }, callId: `b${at}` });
        away = false;
        const taken = [];
        peer.on("POST /late", (response, { body, text }) => {
            assert.ok(Buffer.byteLength(text) <= 5_000_000);
            taken.push(...body.calls.map(({ call }) => call.callId));
            status(200, { accepted: body.calls.length })(response);
        });
        assert.equal(await gate.flush(), 1000);
        assert.deepEqual(taken, [...calls.slice(4).map(({ callId }) => callId), "b1", "b2", "b3"]);
        assert.ok(peer.seen("POST /late").length >= 3);
    });

    test("one that the gate cannot read does not stand in the way of the others", async (t) => {
        const warn = t.mock.method(console, "warn", () => {});
        const { peer, gate } = await lonely(t);
        for (const callId of ["c0", "c1", "c2"]) await gate.intercept({ tool: "write", callId });
        await peer.start();
        const refusal = status(422, { error: "expected a name", at: "calls[1].call.tool" });
        peer.on("POST /late", refusal, { accepted: 2 });
        assert.equal(await gate.flush(), 2);
        const sent = peer.seen("POST /late").map(({ body }) => body.calls.map(({ call }) => call.callId));
        assert.deepEqual(sent, [
            ["c0", "c1", "c2"],
            ["c0", "c2"],
        ]);
        assert.equal(warn.mock.callCount(), 1);
    });

    test("one that is not named is found by halves", async (t) => {
        t.mock.method(console, "warn", () => {});
        const { peer, gate } = await lonely(t);
        const ids = ["c0", "c1", "c2", "c3", "c4"];
        for (const callId of ids) await gate.intercept({ tool: "write", callId });
        await peer.start();
        const taken = [];
        peer.on("POST /late", (response, { body: { calls } }) => {
            const found = calls.map(({ call }) => call.callId);
            if (found.includes("c3")) return status(400, { error: "no name", at: "tool" })(response);
            taken.push(...found);
            status(200, { accepted: found.length })(response);
        });
        assert.equal(await gate.flush(), 4);
        assert.deepEqual(
            taken.toSorted(),
            ids.filter((id) => id !== "c3"),
        );
    });

    test("are kept where the gate refuses the client, not the calls", async (t) => {
        const { peer, gate } = await lonely(t);
        await gate.intercept({ tool: "write" });
        await peer.start();
        peer.on("POST /late", status(401, { error: "token expected" }), { accepted: 1 });
        assert.equal((await thrown(CallosumError, () => gate.flush())).status, 401);
        assert.equal(await gate.flush(), 1);
    });
});

// --- reports -----------------------------------------------------------------------------------

describe("complete", () => {
    test("finds the action by decision, id, key, or tool and params", async (t) => {
        const peer = (await Peer.start(t)).on("POST /intercept", decision()).on("POST /complete", OK);
        const gate = client(peer);
        const who = { instance: "mira", session: "chat" };
        assert.deepEqual(await gate.complete(await gate.intercept({ tool: "x" }), { sent: 1 }), OK);
        await gate.complete({ id: 7 }, undefined, { outcome: "cancelled" });
        await gate.complete({ contextKey: "email:a@b.c" }, "text");
        await gate.complete({ contextKey: null });
        await gate.complete({ tool: "x", params: { a: 1 }, action: "send" }, null, { session: "other" });
        assert.deepEqual(
            peer.seen("POST /complete").map(({ body }) => body),
            [
                { ...who, id: MOMENT, result: { sent: 1 } },
                { ...who, id: 7, outcome: "cancelled" },
                { ...who, contextKey: "email:a@b.c", result: "text" },
                { ...who, contextKey: null },
                { ...who, session: "other", tool: "x", params: { a: 1 }, action: "send", result: null },
            ],
        );
        assert.equal((await thrown(CallosumError, () => gate.complete({}))).at, "id");
        assert.equal((await thrown(CallosumError, () => gate.complete(null))).at, "id");
        assert.equal((await thrown(CallosumError, () => gate.complete({ id: 1 }, 0, { outcome: "ok" }))).at, "outcome");
    });

    test("is repeated by id, but not by key, which would close the next action", async (t) => {
        const peer = (await Peer.start(t)).on("POST /complete", cut, OK);
        const gate = client(peer);
        await gate.complete({ id: 7 });
        assert.equal(peer.requests.length, 2);
        for (const place of [{ contextKey: "email:a@b.c" }, { tool: "x" }]) {
            peer.on("POST /complete", cut, OK);
            await thrown(GateUnavailable, () => gate.complete(place));
        }
        assert.equal(peer.requests.length, 4);
        peer.on("POST /complete", status(503, { error: "stopping" }), OK);
        await gate.complete({ contextKey: "email:a@b.c" });
        assert.equal(peer.requests.length, 6, "a 503 says that nothing was done");
    });
});

describe("guard", () => {
    async function guarded(t, answer = decision(), more = {}) {
        const peer = (await Peer.start(t)).on("POST /intercept", answer).on("POST /complete", OK);
        return { peer, gate: client(peer, more) };
    }

    test("runs what may run and reports what it returned", async (t) => {
        const { peer, gate } = await guarded(t);
        const result = await gate.guard({ tool: "x" }, ({ id }) => ({ id }));
        assert.deepEqual(result, { id: MOMENT });
        const who = { instance: "mira", session: "chat", id: MOMENT };
        assert.deepEqual(peer.seen("POST /complete")[0].body, { ...who, result: { id: MOMENT }, outcome: "done" });
    });

    test("throws the decision that says no, and runs nothing", async (t) => {
        const { peer, gate } = await guarded(t, BLOCK);
        const error = await thrown(Blocked, () => gate.guard({ tool: "x" }, () => assert.fail("it ran")));
        assert.deepEqual([error.name, error.message], ["Blocked", BLOCK.warning]);
        assert.equal(error.decision.verdict, "block");
        assert.equal(peer.seen("POST /complete").length, 0);
    });

    const unknown = (at) => status(400, { error: `unknown field "${at}"`, at });

    test("drops an optional field that the gate does not know, once, and does not send it again", async (t) => {
        const { peer, gate } = await guarded(t);
        peer.on("POST /intercept", unknown("timeout"), decision());
        assert.equal((await gate.intercept({ tool: "x", timeout: 5 })).proceed, true);
        await gate.intercept({ tool: "x", timeout: 5 });
        assert.deepEqual(peer.seen("POST /intercept").map(({ body }) => body.timeout), [5, undefined, undefined]);
    });

    test("throws on an unknown field that it cannot do without", async (t) => {
        const { peer, gate } = await guarded(t);
        peer.on("POST /intercept", unknown("parms"));
        await thrown(CallosumError, () => gate.intercept({ tool: "x", parms: {} }));
        peer.on("POST /intercept", unknown("timeout"), unknown("rewrite"));
        await thrown(CallosumError, () => gate.intercept({ tool: "x", timeout: 5, rewrite: true }));
        assert.equal(peer.seen("POST /intercept").length, 3);
    });

    for (const [fields, sent] of [[["instance", "meta"], { task: 7 }], [["instance"], undefined], [undefined, undefined]]) {
        test(`sends meta only to a gate that lists it: ${fields}`, async (t) => {
            const { peer, gate } = await guarded(t);
            peer.on("GET /health", { status: "ok", fields });
            await gate.intercept({ tool: "x", meta: { task: 7 } });
            await gate.intercept({ tool: "x", meta: { task: 7 } });
            assert.deepEqual(peer.seen("POST /intercept").map(({ body }) => body.meta), [sent, sent]);
            assert.equal(peer.seen("GET /health").length, 1);
        });
    }

    const WARNED = decision({ verdict: "warn", warning: "[Callosum] Conflict: doug acted on it." });

    test("hands a warning to its callback before the call runs", async (t) => {
        const { gate } = await guarded(t, WARNED);
        const seen = [];
        const warned = (answer) => seen.push(answer.warning);
        await gate.guard({ tool: "x" }, () => seen.push("ran"), { warned });
        assert.deepEqual(seen, [WARNED.warning, "ran"]);
    });

    test("writes a warning to the console without a callback", async (t) => {
        const { gate } = await guarded(t, WARNED);
        const warn = t.mock.method(console, "warn", () => {});
        await gate.guard({ tool: "x" }, () => {});
        assert.deepEqual(warn.mock.calls[0].arguments, [`[callosum] x runs with a warning: ${WARNED.warning}`]);
        const calm = await guarded(t);
        await calm.gate.guard({ tool: "x" }, () => {});
        assert.equal(warn.mock.callCount(), 1);
    });

    test("a callback that throws keeps the call from running and frees its lease", async (t) => {
        const { peer, gate } = await guarded(t, WARNED);
        const warned = () => {
            throw new Error("not now");
        };
        await assert.rejects(gate.guard({ tool: "x" }, () => assert.fail("it ran"), { warned }), /not now/);
        assert.equal(peer.seen("POST /complete")[0].body.outcome, "cancelled");
    });

    test("needs a function before it asks", async (t) => {
        const { peer, gate } = await guarded(t);
        await thrown(TypeError, () => gate.guard({ tool: "x" }));
        assert.equal(peer.requests.length, 0);
    });

    const refused = Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
    const reset = Object.assign(new Error("reset"), { code: "ECONNRESET" });
    class ReadTimeout extends Error {}
    const outcomes = [
        ["failed", new Error("no such mailbox")],
        ["failed", new TypeError("x is not a function")],
        ["failed", refused],
        ["failed", new TypeError("fetch failed", { cause: refused })],
        ["failed", "a text"],
        ["failed", undefined],
        ["failed", Symbol("x")],
        ["failed", Object.create(null)],
        ["unknown", reset],
        ["unknown", new TypeError("fetch failed", { cause: reset })],
        ["unknown", new TypeError("Failed to fetch")],
        ["unknown", new DOMException("too slow", "TimeoutError")],
        ["unknown", new DOMException("stopped", "AbortError")],
        ["unknown", Object.assign(new Error("x"), { code: "ETIMEDOUT" })],
        ["unknown", Object.assign(new Error("x"), { code: "UND_ERR_HEADERS_TIMEOUT" })],
        ["unknown", new ReadTimeout("x")],
    ];
    for (const [outcome, error] of outcomes) {
        test(`reports ${String(error?.code ?? error?.message ?? typeof error)} as ${outcome} and throws it on`, async (t) => {
            const { peer, gate } = await guarded(t);
            const fail = () => {
                throw error;
            };
            await assert.rejects(gate.guard({ tool: "x" }, fail), (found) => found === error);
            const { body } = peer.seen("POST /complete")[0];
            assert.equal(body.outcome, outcome);
            assert.equal(typeof body.result.error, "string");
        });
    }

    test("reports a connection that was really cut as unknown", async (t) => {
        const { peer, gate } = await guarded(t);
        peer.on("POST /tool", cut);
        const act = () => fetch(`${peer.url}/tool`, { method: "POST" });
        await thrown(TypeError, () => gate.guard({ tool: "x" }, act));
        assert.equal(peer.seen("POST /complete")[0].body.outcome, "unknown");
    });

    test("renews the lease each third of it while the tool runs", async (t) => {
        const { peer, gate } = await guarded(t, leased(0.15));
        peer.on("POST /renew", cut, OK); // one that is lost is no reason to stop
        const began = performance.now();
        await gate.guard({ tool: "x", session: "other" }, () => peer.nth("POST /renew", 4));
        assert.ok(performance.now() - began >= 100);
        assert.deepEqual(peer.seen("POST /renew")[3].body, { instance: "mira", session: "other", id: MOMENT });
        const count = peer.seen("POST /renew").length;
        await gate.intercept({ tool: "x" });
        assert.equal(peer.seen("POST /renew").length, count, "no more once it has run");
    });

    test("renews no lease that was lost", async (t) => {
        const { peer, gate } = await guarded(t, leased(0.06));
        peer.on("POST /renew", { ok: false, note: "too late" });
        await gate.guard({ tool: "x" }, async () => {
            await peer.nth("POST /renew");
            await gate.guard({ tool: "y" }, () => peer.nth("POST /renew", 2)); // its own lease is renewed
        });
        assert.equal(peer.seen("POST /renew").length, 2);
    });

    test("a result that cannot be written harms nobody", async (t) => {
        const { peer, gate } = await guarded(t);
        const loop = {};
        loop.self = loop;
        const long = { error: "no", text: "x".repeat(1_000_001) };
        for (const result of [loop, long, 5n, () => {}, undefined]) {
            assert.equal(await gate.guard({ tool: "x" }, () => result), result);
        }
        const results = peer.seen("POST /complete").map(({ body }) => body.result);
        const unwritten = { note: "cannot be written as JSON" };
        const cutShort = { error: "no", note: `${JSON.stringify(long).length} characters of JSON, left out` };
        assert.deepEqual(results, [unwritten, cutShort, unwritten, undefined, undefined]);
    });

    test("a report that is lost harms nobody, but is said", async (t) => {
        const warn = t.mock.method(console, "warn", () => {});
        const { peer, gate } = await guarded(t, decision(), { fetch: failing(t) });
        peer.on("POST /complete", cut);
        assert.equal(await gate.guard({ tool: "x" }, () => 5), 5);
        assert.match(warn.mock.calls[0].arguments[0], /could not be reported/);
    });

    test("runs lower tiers without the gate and journals them late", async (t) => {
        const { peer, gate } = await lonely(t);
        assert.equal(await gate.guard({ tool: "write" }, () => 5), 5);
        const fail = () => gate.guard({ tool: "message" }, () => Promise.reject(reset));
        assert.equal(await thrown(Error, fail), reset);
        await thrown(GateUnavailable, () => gate.guard({ tool: "pay" }, () => assert.fail("it ran")));
        await peer.start();
        peer.on("POST /late", { accepted: 2 });
        await gate.flush();
        const { calls } = peer.seen("POST /late")[0].body;
        assert.deepEqual(
            calls.map(({ call, outcome }) => [call.tool, outcome]),
            [
                ["write", "done"],
                ["message", "unknown"],
            ],
        );
    });

    test("keeps no process alive: the wait for the next renewal does not count", async (t) => {
        const { peer } = await guarded(t, leased(300));
        const program = `
            import { CallosumClient } from ${JSON.stringify(new URL("callosum.js", HERE).href)};
            const gate = new CallosumClient({ url: process.argv[1], instance: "mira", fallback: {}, deadline: ${AMPLE} });
            gate.guard({ tool: "x" }, () => { console.log("runs"); return new Promise(() => {}); });
        `;
        const words = ["--input-type=module", "--eval", program, peer.url];
        const { stdout } = await promisify(execFile)(process.execPath, words, { timeout: 60_000 });
        assert.equal(stdout, "runs\n");
    });
});

// --- the other methods -------------------------------------------------------------------------

describe("the wire", () => {
    test("leases", async (t) => {
        const peer = (await Peer.start(t)).on("POST /lock", { acquired: true, id: 5 }).on("POST /renew", OK);
        const gate = client(peer, { namespace: "work" });
        const who = { instance: "mira", session: "chat", namespace: "work" };
        assert.deepEqual(await gate.lock("email:a@b.c"), { acquired: true, id: 5 });
        await gate.lock("email:a@b.c", { tier: 4, ttl: 60, instance: "doug" });
        await gate.renew(5, { ttl: 30 });
        assert.deepEqual(
            peer.requests.map(({ body }) => body),
            [
                { ...who, contextKey: "email:a@b.c", tier: 3 },
                { ...who, instance: "doug", contextKey: "email:a@b.c", tier: 4, ttl: 60 },
                { ...who, id: 5, ttl: 30 },
            ],
        );
    });

    const keys = ["thread:andy:msg-500", "file:/a b/c#1?x=%2F", "channel:#general", "repo:ä/ö", "file:/tmp/", "a/../b"];
    for (const key of [...keys, "a+b&c=d", "c:\\x", "..x", "👍"]) {
        test(`release of ${key}`, async (t) => {
            const peer = (await Peer.start(t)).on("DELETE /lock/", OK);
            assert.deepEqual(await client(peer).release(key), OK);
            const [{ path, query, text }] = peer.requests;
            assert.equal(decodeURIComponent(path.slice("/lock/".length)), key);
            assert.match(path, /^\/lock\/[^/#?: ]+$/);
            assert.deepEqual([query, text], [{ instance: "mira", session: "chat" }, ""]);
        });
    }

    test("release by a person, and of what is no key", async (t) => {
        const peer = (await Peer.start(t)).on("DELETE /lock/", OK);
        await client(peer).release("x", { force: true, by: "anna" });
        const who = { instance: "mira", session: "chat" };
        assert.deepEqual(peer.requests[0].query, { ...who, force: "true", by: "anna" });
        for (const key of ["", ".", "..", undefined]) {
            assert.equal((await thrown(CallosumError, () => client(peer).release(key))).at, "contextKey");
        }
    });

    test("people", async (t) => {
        const peer = (await Peer.start(t)).on("POST /resolve", OK).on("GET /approvals", { approvals: [] });
        peer.on("POST /approvals/7", OK);
        const gate = client(peer, { namespace: "work" });
        await gate.resolve(7, { happened: false, by: "anna", note: "not in the outbox" });
        assert.deepEqual(await gate.approvals({ session: "mira/desk" }), { approvals: [] });
        await gate.approve(7, { by: "anna", channel: "console" });
        await gate.deny(7, { namespace: "other" });
        assert.deepEqual(
            peer.requests.map(({ body, query }) => body ?? query),
            [
                { namespace: "work", id: 7, happened: false, by: "anna", note: "not in the outbox" },
                { namespace: "work", session: "mira/desk" },
                { namespace: "work", approve: true, by: "anna", channel: "console" },
                { namespace: "other", approve: false },
            ],
        );
    });

    test("a person's word is not given twice, and nothing is freed twice", async (t) => {
        const peer = (await Peer.start(t)).on("POST /approvals/7", cut, OK).on("DELETE /lock/", cut, OK);
        await thrown(GateUnavailable, () => client(peer).approve(7));
        await thrown(GateUnavailable, () => client(peer).release("email:a@b.c"));
        assert.equal(peer.requests.length, 2);
    });

    test("the brief", async (t) => {
        const found = { text: "[Callosum] ...", tokens: 5, sections: [{ title: "In hand", lines: ["a"] }], trimmed: 0 };
        const peer = (await Peer.start(t)).on("GET /brief", found);
        const gate = client(peer);
        assert.deepEqual(await gate.brief(), found);
        await gate.brief({ session: "b", keys: ["file:/a b", "k"], cwd: "/repo", budget: 0, namespace: "work" });
        const who = { instance: "mira", session: "chat" };
        const more = { instance: "mira", session: "b", namespace: "work", key: "k", cwd: "/repo", budget: "0" };
        const brief = peer.seen("GET /brief");
        assert.deepEqual(
            brief.map(({ query }) => query),
            [who, more],
        );
        assert.deepEqual(brief[1].keys, ["file:/a b", "k"]);
    });

    test("looking", async (t) => {
        const found = { locks: [], recentActions: [] };
        const page = { entries: [{ event: "lock", session: "mira" }], cursor: "c2" };
        const peer = (await Peer.start(t)).on("GET /status", found).on("GET /journal", page);
        const gate = client(peer);
        assert.deepEqual(await gate.status(), found);
        await gate.status("file:/a b#c", { namespace: "work" });
        assert.deepEqual(await gate.journal(), page);
        await gate.journal({ cursor: "c1", limit: 5, session: "mira/chat", contextKey: "k", newest: true, wait: 2 });
        const more = { cursor: "c1", limit: "5", session: "mira/chat", contextKey: "k", newest: "true", wait: "2" };
        const queries = peer.requests.map(({ query }) => query);
        assert.deepEqual(queries, [{}, { namespace: "work", contextKey: "file:/a b#c" }, {}, more]);
    });

    test("events go in one or many, and not twice", async (t) => {
        const peer = (await Peer.start(t)).on("POST /events", { accepted: 1 }, { accepted: 2 }, { accepted: 1 }, cut);
        const gate = client(peer);
        const event = { type: "input.received", content: "hi" };
        assert.equal(await gate.emit(event), 1);
        assert.equal(await gate.emit([event, event]), 2);
        const named = { instance: "mira/chat", ...event };
        assert.equal(await gate.emit([{ ...event, instance: "doug" }]), 1);
        const bodies = [named, [named, named], [{ ...named, instance: "doug" }]];
        assert.deepEqual(
            peer.requests.map(({ body }) => body),
            bodies,
        );
        await thrown(GateUnavailable, () => gate.emit(event));
        assert.equal(peer.requests.length, 4);
    });

    test("options that cannot be used", () => {
        const unusable = [
            { url: "localhost:7700" },
            { url: "ftp://x" },
            { url: "http://mira:secret@x" },
            { url: "http://x/?a=1" },
            { token: "a\nb" },
            { token: "" },
            { deadline: 0 },
            { deadline: Number.NaN },
            { fallback: { read: 5 } },
            { fallback: { read: "0" } },
        ];
        for (const options of unusable) assert.throws(() => new CallosumClient(options), TypeError);
        assert.ok(new CallosumClient());
    });

    test("a gate below a path", async (t) => {
        const peer = (await Peer.start(t)).on("GET /gate/status", { locks: [], recentActions: [] });
        await new CallosumClient({ url: `${peer.url}/gate/`, fallback: {} }).status();
    });
});

// --- the event stream --------------------------------------------------------------------------

describe("events", () => {
    async function collected(gate, count, options) {
        const found = [];
        for await (const event of gate.events(options)) {
            found.push(event);
            if (found.length === count) break;
        }
        return found;
    }

    /** A client whose stream comes in exactly these chunks, once. */
    function chunked(chunks) {
        const fetch = async () =>
            new Response(ReadableStream.from(chunks), { headers: { "content-type": "text/event-stream" } });
        return client({ url: "http://127.0.0.1:1" }, { fetch });
    }

    const EVENTS = [
        { id: "", type: "message", data: "no JSON" },
        { id: "1", type: "safety.blocked", data: { reason: "two\nlines" } },
        { id: "2", type: "safety.blocked", data: [1, "ä👍"] },
        { id: "2", type: "message", data: null },
    ];
    const TEXT = [
        "\ufeffdata: no JSON",
        "",
        ": a comment",
        "event: safety.blocked",
        'data: {"reason":',
        'data:"two\\nlines"}',
        "id: 1",
        "unknown: field",
        "",
        "event: lost, for it has no data",
        "",
        "id: 2",
        'data: [1, "ä👍"]',
        "event: safety.blocked",
        "",
        "data: null",
        "id: a\0b",
        "retry: soon",
        "",
        "",
    ];

    for (const [name, end] of Object.entries({ LF: "\n", CR: "\r", "CR LF": "\r\n" })) {
        test(`are read whatever the borders of the chunks, lines ending with ${name}`, async () => {
            const bytes = new TextEncoder().encode(TEXT.join(end));
            for (const size of [1, 2, 3, 7, 64, bytes.length]) {
                const chunks = [];
                for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.slice(at, at + size));
                assert.deepEqual(await collected(chunked(chunks), EVENTS.length), EVENTS, `chunks of ${size}`);
            }
        });
    }

    test("ending with CR are told without waiting for more", async (t) => {
        const peer = (await Peer.start(t)).on("GET /events", stream("data: 1\r\r"));
        assert.deepEqual(await collected(client(peer), 1), [{ id: "", type: "message", data: 1 }]);
    });

    test("come over a real connection, in pieces", async (t) => {
        const peer = (await Peer.start(t)).on("GET /events", stream(": hello\n\nid: 7\nda", 'ta: {"a"', ":1}\n", "\n"));
        const gate = client(peer, { token: "secret", namespace: "work" });
        const found = await collected(gate, 1, { types: ["safety.*", "tool.called"] });
        assert.deepEqual(found, [{ id: "7", type: "message", data: { a: 1 } }]);
        const [{ query, headers }] = peer.requests;
        assert.deepEqual(query, { types: "safety.*,tool.called", namespace: "work" });
        assert.equal(headers.accept, "text/event-stream");
        assert.equal(headers.authorization, "Bearer secret");
        assert.equal(headers["last-event-id"], undefined);
    });

    test("go on after the last one when the connection is cut in the middle of one", async (t) => {
        const peer = await Peer.start(t);
        const first = streamThenCut("retry: 5\nid: 0\n\n", "id: 1\ndata: 1\n\n", "id: 2\ndata: ");
        peer.on(
            "GET /events",
            first,
            streamThenCut("id: 2\ndata: 2\n\n"),
            status(503, "{}"),
            stream("id: 3\ndata: 3\n\n"),
        );
        const found = await collected(client(peer), 3, { lastEventId: "a" });
        assert.deepEqual(
            found.map(({ id, data }) => [id, data]),
            [
                ["1", 1],
                ["2", 2],
                ["3", 3],
            ],
        );
        const asked = peer.seen("GET /events").map(({ headers }) => headers["last-event-id"]);
        assert.deepEqual(asked, ["a", "1", "2", "2"]);
    });

    test("go on from where a stream began that ended before its first event", async (t) => {
        const peer = await Peer.start(t);
        peer.on("GET /events", streamThenCut("retry: 1\nid: 40\n\n"), stream("id: 41\ndata: 1\n\n"));
        await collected(client(peer), 1);
        assert.deepEqual(
            peer.seen("GET /events").map(({ headers }) => headers["last-event-id"]),
            [undefined, "40"],
        );
    });

    test("go on when the gate was away", async (t) => {
        const { peer, gate } = await lonely(t);
        const found = collected(gate, 1);
        await peer.start();
        peer.on("GET /events", stream("data: 1\n\n"));
        assert.equal((await found)[0].data, 1);
    });

    test("end with a refusal", async (t) => {
        const peer = (await Peer.start(t)).on("GET /events", status(401, { error: "token expected" }));
        const error = await thrown(CallosumError, () => collected(client(peer), 1));
        assert.equal(error.status, 401);
    });

    test("end when the gate says that there are no more", async (t) => {
        const peer = (await Peer.start(t)).on("GET /events", (response) => response.writeHead(204).end());
        assert.deepEqual(await collected(client(peer), 1), []);
    });

    test("end when the signal says so, without an error and without a connection", async (t) => {
        const peer = await Peer.start(t);
        const closed = new Promise((resolve) => {
            peer.on("GET /events", (response) => {
                response.on("close", resolve);
                stream("data: 1\n\n")(response);
            });
        });
        const stop = new AbortController();
        for await (const event of client(peer).events({ signal: stop.signal })) {
            assert.equal(event.data, 1);
            setImmediate(() => stop.abort());
        }
        await closed;
        assert.deepEqual(await collected(client(peer), 1, { signal: stop.signal }), []);
        assert.equal(peer.requests.length, 1);
    });

    test("leaving the loop closes the connection", async (t) => {
        const peer = await Peer.start(t);
        const closed = new Promise((resolve) => {
            peer.on("GET /events", (response) => {
                response.on("close", resolve);
                stream("data: 1\n\n")(response);
            });
        });
        await collected(client(peer), 1);
        await closed;
    });

    test("what the reader throws is the reader's", async (t) => {
        const peer = (await Peer.start(t)).on("GET /events", stream("data: 1\n\n"));
        const events = client(peer).events();
        await events.next();
        await assert.rejects(events.throw(new RangeError("mine")), RangeError);
        assert.equal(peer.requests.length, 1);
    });

    test("a connection that is silent for long is made again", async (t) => {
        const peer = await Peer.start(t);
        peer.on("GET /events", stream("retry: 1\nid: 1\ndata: 1\n\n"), stream("id: 2\ndata: 2\n\n"));
        const real = globalThis.setTimeout;
        const watches = [];
        t.mock.method(globalThis, "setTimeout", (act, time, ...rest) => {
            if (time === 90_000) watches.push(act);
            return real(act, time, ...rest);
        });
        const events = client(peer).events();
        assert.equal((await events.next()).value.data, 1);
        const next = events.next();
        watches.at(-1)();
        assert.equal((await next).value.data, 2);
        await events.return();
    });
});

// --- browsers, types, documents ----------------------------------------------------------------

describe("the module", () => {
    test("runs where there is nothing but what browsers have", async (t) => {
        const peer = (await Peer.start(t))
            .on("POST /intercept", leased(0.06))
            .on("POST /complete", OK)
            .on("POST /renew", OK);
        const source = await readFile(new URL("callosum.js", HERE), "utf8");
        assert.doesNotMatch(source, /^import |\bimport\(|\brequire\(|\bprocess\.|\bBuffer\b|node:/m);
        const timers = [];
        const window = {
            AbortController,
            DOMException,
            TextDecoder,
            TextEncoder,
            URL,
            URLSearchParams,
            console,
            performance,
            crypto: { getRandomValues: (bytes) => crypto.getRandomValues(bytes) }, // as in pages that came in the clear
            setTimeout: (act, time) => timers.push(setTimeout(act, time)), // numbers
            clearTimeout: (at) => clearTimeout(timers[at - 1]),
            fetch(...words) {
                if (this !== undefined && this !== context && this !== window)
                    throw new TypeError("Illegal invocation");
                return fetch(...words);
            },
        };
        const context = vm.createContext(window);
        const strict = `"use strict";${source.replaceAll(/^export /gm, "")};({ CallosumClient, CallosumError })`;
        const { CallosumClient: Client } = vm.runInContext(strict, context);
        const gate = new Client({ url: peer.url, instance: "mira", fallback: { read: 0 } });
        assert.equal(await gate.guard({ tool: "x" }, () => peer.nth("POST /renew", 2).then(() => 5)), 5);
        assert.match(peer.requests[0].body.callId, /^[0-9a-f]{32}$/);
    });

    test("has the names that its types have, and no others", async () => {
        const types = (await readFile(new URL("callosum.d.ts", HERE), "utf8")).replaceAll(
            /\/\*[^]*?\*\/|\/\/.*$/gm,
            "",
        );
        const declared = [...types.matchAll(/^export declare (?:class|const|function) (\w+)/gm)].map(
            ([, name]) => name,
        );
        assert.deepEqual(declared.toSorted(), Object.keys(module).toSorted());
        assert.doesNotMatch(types, /\bany\b/);
        for (const name of declared) {
            const kind = module[name];
            const [, base, body] = new RegExp(
                `^export declare class ${name}(?: extends (\\w+))? \\{\n([^]*?)^\\}`,
                "m",
            ).exec(types);
            const methods = [...body.matchAll(/^ {4}(\w+)(?:<\w+>)?\(/gm)].map(([, method]) => method);
            assert.deepEqual(
                [...new Set(methods)].toSorted(),
                Object.getOwnPropertyNames(kind.prototype).toSorted(),
                name,
            );
            assert.equal(
                Object.getPrototypeOf(kind),
                base ? (module[base] ?? globalThis[base]) : Function.prototype,
                name,
            );
            const fields = [...body.matchAll(/^ {4}readonly (\w+):/gm)].map(([, field]) => field);
            const made = new kind(kind === Blocked ? BLOCK : undefined);
            const own = Object.keys(made).filter((field) => field !== "name");
            const inherited = base in module ? Object.keys(new module[base]("")) : [];
            assert.deepEqual(fields.toSorted(), own.filter((field) => !inherited.includes(field)).toSorted(), name);
        }
    });

    test("is packed with its types and without dependencies", async () => {
        const description = JSON.parse(await readFile(new URL("package.json", HERE), "utf8"));
        assert.deepEqual(
            Object.keys(description).filter((name) => /dependencies/i.test(name)),
            [],
        );
        assert.deepEqual(Object.keys(description.exports["."]), ["types", "default"]);
        const itself = await import("callosum-client");
        assert.equal(itself.CallosumClient, CallosumClient);
    });

    test("does what its README shows", async (t) => {
        const peer = (await Peer.start(t)).on("POST /intercept", BLOCK, decision()).on("POST /complete", OK);
        peer.on("GET /events", stream('id: 1\nevent: safety.blocked\ndata: {"toolName":"send_email"}\n\n'));
        const text = await readFile(new URL("README.md", HERE), "utf8");
        const blocks = [...text.matchAll(/```js\n([^]*?)```/g)].map(([, code]) => code);
        const before = 'const params = { to: "a@b.c" }; const sendEmail = async () => ({ sent: true });\n';
        const program = (before + blocks.join("\n"))
            .replaceAll('"callosum-client"', JSON.stringify(new URL("callosum.js", HERE).href))
            .replace('"http://127.0.0.1:7700"', `"${peer.url}", deadline: ${AMPLE}`);
        const folder = await mkdtemp(join(tmpdir(), "callosum-"));
        t.after(() => rm(folder, { recursive: true }));
        const file = join(folder, "readme.mjs");
        await writeFile(file, program);
        const { stdout } = await promisify(execFile)(process.execPath, [file], {
            timeout: 60_000,
            cwd: fileURLToPath(HERE),
        });
        assert.match(stdout, /Conflict: doug/);
        assert.match(stdout, /send_email/);
        assert.equal(peer.seen("POST /complete").length, 1);
    });
});
