// The plugin when the gate is away, hangs, talks garbage or has to be started, and when it cannot be set up itself.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import http from "node:http";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { after, test } from "node:test";

import { ask, callOf, copyOfPlugin, DONE, Host, logged, PLUGIN, SOCKET, STATE, until } from "./host.mjs";

const COMMAND = JSON.parse(process.env.CALLOSUM_COMMAND);
const FOLDERS = [];
const HANG = 30_000; // milliseconds after which an answer counts as hung, however busy the machine is

/** A state folder without a gate, in which none can be started, with the table that a gate left there. */
function deserted() {
    const state = fs.mkdtempSync(path.join(os.tmpdir(), "deserted-"));
    FOLDERS.push(state);
    fs.copyFileSync(path.join(STATE, "fallback.json"), path.join(state, "fallback.json"));
    return { state, command: [process.execPath, "-e", "process.exit(3)", "--"] };
}
after(() => FOLDERS.forEach((folder) => fs.rmSync(folder, { recursive: true, force: true })));

const READ = ["read", { path: "/home/ann/ws/a.txt" }];
const WRITE = ["write", { path: "/home/ann/ws/a.txt", content: "x" }];
const LOOK = ["process", { action: "poll", sessionId: "s" }];
const POST = ["message", { action: "send", target: "9", message: "hello there" }];
const SHELL = ["exec", { command: "ls" }];
const STRANGE = ["wire_transfer", { amount: 1 }];

async function judged(host, [tool, params]) {
    const { event, ctx } = callOf(tool, params);
    return host.before(event, ctx);
}

for (const [failMode, runs, held] of [
    ["tier", [READ, WRITE, LOOK], [POST, SHELL, STRANGE]],
    ["open", [READ, WRITE, POST, SHELL, STRANGE], []],
    ["closed", [READ, LOOK], [WRITE, POST, SHELL, STRANGE]],
]) {
    test(`while the gate is away (${failMode}) ${runs.length} of ${runs.length + held.length} go on`, async () => {
        const host = new Host({ ...deserted(), failMode });
        for (const one of runs) assert.equal(await judged(host, one), undefined, one[0]);
        for (const one of held)
            assert.match(
                await judged(host, one),
                /^\[Callosum\] The gate is unreachable .* does not run without it/,
                one[0],
            );
    });
}

test("a gateway's sessions go on reading while its gate is starting", async () => {
    const slow = {
        ...deserted(),
        command: [process.execPath, "-e", "setTimeout(() => {}, 30_000)", "--"],
        heartbeatSeconds: 600,
    };
    const host = new Host(slow);
    await host.call("gateway_start", {}, {});
    for (const one of [READ, WRITE, LOOK]) assert.equal(await within(HANG, () => judged(host, one)), undefined, one[0]);
    await host.call("gateway_stop", {}, {});
});

test("`_tier` raises what a call counts as", async () => {
    const host = new Host(deserted());
    assert.match(await judged(host, ["read", { path: "/x", _tier: 4 }]), /counts as tier 4/);
});

test("without the gate a chat is answered, a thread and a mail are not", async () => {
    const host = new Host(deserted());
    const said = (channel, more = {}) => [
        { to: `${channel}:9`, content: "An answer that is long enough to count.", metadata: { channel }, ...more },
        { channelId: channel, sessionKey: "agent:main:main" },
    ];
    assert.equal(await host.call("message_sending", ...said("telegram")), undefined);
    assert.equal((await host.call("message_sending", ...said("telegram", { replyToId: "5" }))).cancel, true);
    assert.equal((await host.call("message_sending", ...said("imap"))).cancel, true);
});

async function within(milliseconds, work) {
    const began = performance.now();
    const found = await work();
    assert.ok(performance.now() - began < milliseconds, "it hangs");
    return found;
}

/** Something that listens where a gate should be. */
async function instead(listener, kind = http) {
    const server = kind.createServer(listener).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    return {
        url: `http://127.0.0.1:${server.address().port}`,
        close: () => (server.closeAllConnections?.(), server.close()),
    };
}

const GARBAGE = [
    ["hangs", (_, response) => setTimeout(() => response.end("{}"), 60_000).unref()],
    ["says 500", (_, response) => response.writeHead(500).end('{"error": "oh"}')],
    ["says 503", (_, response) => response.writeHead(503).end('{"error": "the store is away", "at": "store"}')],
    ["is no gate", (_, response) => response.end("<html>")],
    ["answers without end", (_, response) => void setInterval(() => response.write("x"), 5).unref()],
    ["cuts the line", (request) => request.socket.destroy()],
    [
        "says yes and no",
        (_, response) => response.end('{"proceed": true, "verdict": "block", "tier": 4, "id": 1, "contextKey": null}'),
    ],
    ["says yes without a decision", (_, response) => response.end('{"proceed": true}')],
    [
        "refuses the token",
        (_, response) => response.writeHead(401).end('{"error": "a token is needed", "at": "Authorization"}'),
    ],
    ["sends elsewhere", (_, response) => response.writeHead(302, { location: "http://127.0.0.1:1/" }).end()],
];
for (const [what, listener] of GARBAGE) {
    test(`a gate that ${what} is no gate: reading goes on, a message does not, within the deadline`, async () => {
        const server = await instead(listener);
        const host = new Host({ mode: "remote", url: server.url, state: undefined, deadlineMs: 400 });
        // Without any table what is unknown counts as 3; reading is in none.
        assert.match(await within(HANG, () => judged(host, POST)), /^\[Callosum\]/);
        const own = new Host({ mode: "remote", url: server.url, state: undefined, deadlineMs: 400, failMode: "open" });
        assert.equal(await within(HANG, () => judged(own, READ)), undefined);
        server.close();
    });
}

test("a gate that hangs is asked about one call, and left alone by the next ones", async () => {
    let asked = 0;
    const server = await instead((request) => void (request.url === "/intercept" && asked++));
    const host = new Host({ mode: "remote", url: server.url, state: undefined, deadlineMs: 400, failMode: "open" });
    for (let count = 0; count < 4; count++) assert.equal(await within(HANG, () => judged(host, READ)), undefined);
    assert.equal(asked, 1);
    server.close();
});

test("a remote gate's table is fetched, and holds when it has gone", async () => {
    let there = true;
    const server = await instead((request, response) => {
        if (!there) return request.socket.destroy();
        const pieces = [];
        request.on("data", (piece) => pieces.push(piece));
        request.on("end", async () => {
            const body = pieces.length ? JSON.parse(Buffer.concat(pieces).toString()) : undefined;
            response.end(JSON.stringify(await ask(request.method, request.url, body)));
        });
    });
    const host = new Host({ mode: "remote", url: server.url, state: undefined, token: "secret-token" });
    assert.equal(await judged(host, READ), undefined);
    const link = [...globalThis[Symbol.for("callosum.openclaw")].values()].find(
        (one) => one.settings.url === server.url,
    );
    await until(() => link.table());
    there = false;
    assert.equal(await judged(host, READ), undefined);
    assert.match(await judged(host, POST), /^\[Callosum\]/);
    server.close();
});

/** The records in the spool of a state folder. */
function spooled(state) {
    const file = path.join(state, "late.jsonl");
    if (!fs.existsSync(file)) return [];
    return fs.readFileSync(file, "utf8").split("\n").filter(Boolean).map(JSON.parse);
}

/** What the gate of a state folder answers. */
function askAt(state, target) {
    return new Promise((resolve, reject) => {
        const asked = http.get({ socketPath: path.join(state, "gate.sock"), path: target }, async (answer) => {
            let text = "";
            for await (const piece of answer) text += piece;
            resolve(JSON.parse(text));
        });
        asked.on("error", reject);
    });
}

test("a call without the gate is in the spool, without its content, and enters before the next decision", async () => {
    const { state, command } = deserted();
    const host = new Host({ state, command });
    const content = "the key is sk-ant-api03-A1b2C3d4A1b2C3d4A1b2C3d4";
    const { event, ctx, session } = callOf("write", { path: "/home/ann/ws/a.txt", content });
    assert.equal(await host.before(event, ctx), undefined);
    assert.equal(spooled(state).length, 1, "before the tool runs");
    await host.after({ ...event, error: "disk full" }, ctx);
    assert.deepEqual(spooled(state).map((record) => record.kind), ["call", "report"]);
    assert.ok(!fs.readFileSync(path.join(state, "late.jsonl"), "utf8").includes("sk-ant"));
    const back = new Host({ state, command: COMMAND });
    const next = callOf(...READ);
    assert.equal(await back.before(next.event, next.ctx), undefined);
    assert.deepEqual(spooled(state), []);
    const { entries } = await askAt(state, `/journal?${new URLSearchParams({ session: `mira/${session}` })}`);
    assert.deepEqual(entries.map((one) => [one.event, one.tool, one.outcome]), [
        ["late", "write", undefined],
        ["complete", "write", "failed"],
    ]);
    assert.deepEqual(entries[0].keys, [["file:/home/ann/ws/a.txt", "write"]]);
    await stopGate(state);
});

test("a patch in the spool keeps the names of its files", async () => {
    const { state, command } = deserted();
    fs.writeFileSync(path.join(state, "fallback.json"), '{"tools": {"apply_patch": 1}}');
    const input = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-one\n+two\n*** End Patch";
    assert.equal(await judged(new Host({ state, command }), ["apply_patch", { input }]), undefined);
    const [{ call }] = spooled(state);
    assert.match(call.params.input, /Update File: src\/a.py/);
    assert.doesNotMatch(call.params.input, /two/);
});

test("a message without the gate stays in memory, for its keys hang on more than names of files", async () => {
    const { state, command } = deserted();
    const host = new Host({ state, command, failMode: "open" });
    assert.equal(await judged(host, POST), undefined);
    assert.deepEqual(spooled(state), []);
});

test("a report that the gate does not get is in the spool, and so is a call that was given up", async () => {
    const { state } = deserted();
    const host = new Host({ state, command: COMMAND });
    const { event, ctx } = callOf(...POST);
    assert.equal(await host.before(event, ctx), undefined);
    const [pid] = await gatesOf(state);
    process.kill(pid, "SIGSTOP");
    const hung = new Host({ state, command: COMMAND, deadlineMs: 300 });
    assert.match(await judged(hung, ["message", { action: "send", target: "8", message: "hi" }]), /is unreachable/);
    assert.deepEqual(spooled(state).map((record) => record.kind), ["cancel"]);
    process.kill(pid, "SIGKILL");
    fs.rmSync(path.join(state, "servers", `${pid}.json`), { force: true });
    const failing = { state, command: [process.execPath, "-e", "process.exit(3)", "--"] };
    const link = createRequire(import.meta.url)(path.join(PLUGIN, "pending.js"));
    const late = new link.PendingRecords(failing.state);
    late.owe({ instance: "mira", session: "s", id: 7, result: { error: "read timed out" } });
    const [, record] = spooled(state);
    assert.deepEqual([record.kind, record.id, record.outcome], ["report", 7, "unknown"]);
});

// --- starting the gate --------------------------------------------------------------------------

const CHILD = `
import { createRequire } from "node:module";
const load = createRequire(process.argv[1]);
const { Gate } = load("./gate.js");
const gate = new Gate(JSON.parse(process.argv[2]), console.error);
console.log(await gate.start());
`;

/** The processes that serve a state folder. A gate listens a moment before it says so there. */
function gatesOf(state) {
    const folder = path.join(state, "servers");
    return until(() => {
        const names = fs.existsSync(folder) ? fs.readdirSync(folder).filter((name) => name.endsWith(".json")) : [];
        return names.length && names.map((name) => Number(name.split(".")[0]));
    });
}

async function stopGate(state) {
    const servers = await gatesOf(state);
    for (const pid of servers) process.kill(pid, "SIGTERM");
    await until(
        () =>
            servers.every((pid) => {
                try {
                    process.kill(pid, 0);
                    return false;
                } catch {
                    return true;
                }
            }),
        60_000,
    );
    return servers;
}

for (const [what, folder] of [
    ["", "starts-"],
    [" whose path is too long for a socket", `starts-${"x".repeat(110)}-`],
]) {
    test(`two gateways that find no gate at once end up with one${what}`, async () => {
        const state = fs.mkdtempSync(path.join(os.tmpdir(), folder));
        FOLDERS.push(state);
        const settings = JSON.stringify({ mode: "local", state, command: COMMAND, deadline: 900 });
        const begun = [1, 2].map(() => {
            const child = spawn(process.execPath, [
                "--input-type=module",
                "-e",
                CHILD,
                path.join(PLUGIN, "index.js"),
                settings,
            ]);
            let said = "";
            child.stdout.on("data", (piece) => (said += piece));
            child.stderr.on("data", (piece) => (said += piece));
            return new Promise((resolve) => child.on("close", () => resolve(said.trim())));
        });
        assert.deepEqual(await Promise.all(begun), ["true", "true"]);
        assert.equal((await stopGate(state)).length, 1);
    });
}

test("a call that cannot go on without it waits for the gate, which is started again when it was killed", async () => {
    const state = fs.mkdtempSync(path.join(os.tmpdir(), "waits-"));
    FOLDERS.push(state);
    const host = new Host({ state, command: COMMAND });
    const { event, ctx } = callOf(...POST);
    assert.equal(await host.before(event, ctx), undefined);
    await host.after({ ...event, result: DONE }, ctx);
    const [pid] = await gatesOf(state);
    process.kill(pid, "SIGKILL");
    const again = callOf("message", { action: "send", target: "10", message: "and hello again" });
    assert.equal(await host.before(again.event, again.ctx), undefined);
    await until(async () => (await gatesOf(state)).some((other) => other !== pid));
    fs.rmSync(path.join(state, "servers", `${pid}.json`), { force: true });
    assert.notDeepEqual(await stopGate(state), [pid]);
});

// --- the plugin itself --------------------------------------------------------------------------

test("whatever of the host's interface throws, register does not, and what is not reading is held", async () => {
    for (const broken of [
        ["on"],
        ["registerTrustedToolPolicy"],
        ["registerAgentToolResultMiddleware"],
        ["registerGatewayMethod"],
        ["registerHttpRoute"],
        ["on", "registerTrustedToolPolicy"],
    ]) {
        const host = new Host({}, { broken });
        if (broken.length === 1) {
            const { event, ctx } = callOf("message", { action: "send", target: `broken-${broken}`, message: "x" });
            if (broken[0] === "on") assert.match(await host.before(event, ctx), /only reading goes on/);
            else assert.equal(await host.before(event, ctx), undefined);
        }
    }
});

test("settings that cannot be used hold what is not reading, and the gateway is announced once", async () => {
    const host = new Host({ instanceId: "fallen", deadlineMs: "soon" });
    assert.match(await judged(host, POST), /could not be set up \(deadlineMs: expected a number/);
    assert.equal(await judged(host, READ), undefined);
    await host.call("gateway_start", {}, {});
    const beat = await until(() => logged().find((one) => one.instance === `fallen/openclaw:${process.pid}`));
    assert.equal(beat.metrics.everySeconds, 10);
    assert.equal(beat.metrics.failed, "the plugin could not be set up");
    assert.equal(new Host({ failMode: "open", deadlineMs: "soon" }).policies.length, 1);
});

test("a broken file of the plugin holds everything", async () => {
    for (const names of [["plugin.js"], ["plugin.js", "failsafe.js"]]) {
        const folder = copyOfPlugin();
        for (const name of names) fs.writeFileSync(path.join(folder, name), "this is (no JavaScript");
        const host = new Host({}, { folder });
        assert.match(await judged(host, POST), /^\[Callosum\] The plugin/);
    }
});
