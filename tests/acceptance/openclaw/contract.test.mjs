// The plugin against a real gate, with what OpenClaw was seen to say.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";

import { ask, callOf, copyOfPlugin, DONE, Host, journal, logged, STATE, story, until } from "./host.mjs";

const host = new Host();
const job = (id) => ({ action: "add", jobId: id });
const send = (target, message) => ({ action: "send", target, message });

async function holding(contextKey, tier = 4) {
    const { acquired } = await ask("POST", "/lock", { instance: "doug", contextKey, tier });
    assert.equal(acquired, true);
}

// --- one call -----------------------------------------------------------------------------------

test("a recorded turn: each call is decided once, under session, turn, id, folder and cause", async () => {
    for (const name of [
        "gateway_start",
        "message_received",
        "before_model_resolve",
        "before_prompt_build",
        "before_prompt_build",
    ]) {
        await host.play(name);
    }
    for (const name of ["llm_input", "model_call_started", "model_call_ended", "assistant_written"])
        await host.play(name);
    for (const which of ["write", "exec_failed", "wrapper", "exec_background", "message"]) {
        assert.equal(await host.play(`policy_${which}`), undefined, which);
        assert.equal(await host.play(`before_${which}`), undefined, which);
    }
    assert.equal(await host.play("sending_of_tool"), undefined);
    await host.play("after_write");
    await host.play("sent_of_tool");
    for (const which of ["message", "wrapper", "exec_background", "exec_failed"]) await host.play(`after_${which}`);
    const told = await story("agent:main:main");
    assert.deepEqual(told, [
        "intercept write allow",
        "intercept exec allow",
        "intercept exec allow",
        "intercept message allow",
        "complete write done",
        "complete message done",
        "complete exec failed",
    ]);
    const [write, , background, message] = await journal("agent:main:main");
    assert.deepEqual(write.keys, [["file:/home/ann/ws/a.txt", "write"]]);
    assert.equal(write.run, "a4287695-6650-4f9f-81f1-0d616a708d6b");
    assert.equal(write.body.callId, "a4287695-6650-4f9f-81f1-0d616a708d6b:call_r8_0");
    assert.equal(write.body.cwd, "/home/ann/ws");
    assert.ok(write.body.origin, "the message that caused it");
    assert.equal(message.body.callId, "a4287695-6650-4f9f-81f1-0d616a708d6b:tool_search_code:call_r8_2:message:1");
    // The host tells of the command's end by a turn of its own.
    await host.play("exec_ended");
    await until(async () => (await story("agent:main:main")).length === 8);
    const last = (await journal("agent:main:main")).at(-1);
    assert.deepEqual([last.event, last.action, last.outcome], ["complete", background.action, "done"]);
});

test("the final reply is one action, whichever hooks see it", async () => {
    const before = (await story("agent:main:main")).length;
    for (const name of ["reply_payload", "sending_of_reply"]) assert.equal(await host.play(name), undefined);
    await host.play("sent_of_reply");
    assert.deepEqual((await story("agent:main:main")).slice(before), [
        "intercept message allow",
        "complete message done",
    ]);
    const sent = (await journal("agent:main:main")).at(before);
    assert.deepEqual(sent.keys, [["channel:42", "append"]]);
    assert.ok(sent.body.callId.startsWith("delivery:"));
});

test("what another session holds is not run: the model reads why, and no outcome is invented", async () => {
    await holding("channel:held-1");
    const { event, ctx, session } = callOf("message", send("held-1", "The invoice is on its way to you."));
    const sentence = await host.before(event, ctx);
    assert.match(sentence, /^\[Callosum\] .*doug.*channel:held-1/s);
    const details = { status: "blocked", deniedReason: "plugin-before-tool-call", reason: sentence };
    await host.after({ ...event, error: sentence, result: { content: [], details } }, ctx);
    assert.deepEqual(await story(session), ["intercept message block"]);
});

test("a warning is a pause, which the model's next turn confirms and a twin of the same turn does not", async () => {
    const text = "The offer for the twelve blue chairs stands until Friday at noon.";
    const first = callOf("message", send("pause-1", text));
    assert.equal(await host.before(first.event, first.ctx), undefined);
    await host.after({ ...first.event, result: DONE }, first.ctx);
    const session = "agent:main:pausing";
    const run = "run-pausing";
    await host.call("model_call_started", { runId: run, sessionKey: session }, { runId: run, sessionKey: session });
    const asked = () => callOf("message", send("pause-1", text), { session, run });
    for (const one of [asked(), asked()]) assert.match(await host.before(one.event, one.ctx), /^\[Callosum\]/);
    await host.call("model_call_started", { runId: run, sessionKey: session }, { runId: run, sessionKey: session });
    const again = asked();
    assert.equal(await host.before(again.event, again.ctx), undefined);
});

test("an older OpenClaw without trusted policies is gated by the hook", async () => {
    const old = new Host({}, { broken: ["registerTrustedToolPolicy"] });
    assert.equal(old.policies.length, 0);
    const { event, ctx } = callOf("message", send("held-1", "The invoice is on its way to you."));
    assert.match(await old.before(event, ctx), /^\[Callosum\] .*doug/);
});

// --- files ---------------------------------------------------------------------------------------

const LINES = Array.from({ length: 200 }, (_, number) => `line ${number} of a text that is not short\n`).join("");

/** Two sessions read a file, the one writes it, and then the other; what the other's model reads. */
async function both(host, name, wrap = (call) => call) {
    const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "callosum-")), name);
    fs.writeFileSync(file, LINES);
    const mine = LINES.replace("line 190 ", "mine 190 ");
    const theirs = LINES.replace("line 3 ", "theirs 3 ");
    const of = (session, tool, params) => callOf(tool, { path: file, ...params }, { session, run: `run-${session}` });
    const write = ({ content }) => fs.writeFileSync(file, content) ?? "written";
    for (const session of [`one-${name}`, `two-${name}`])
        assert.deepEqual(await host.run(of(session, "read"), () => LINES), [LINES]);
    assert.deepEqual(await host.run(of(`two-${name}`, "write", { content: theirs }), write), ["written"]);
    const said = await host.run(wrap(of(`one-${name}`, "write", { content: mine })), write);
    assert.equal(fs.readFileSync(file, "utf8"), theirs.replace("line 190 ", "mine 190 "));
    return said;
}

test("a write over another's change runs merged, and the model reads so with its result", async () => {
    const [written, said, ...more] = await both(host, "plan.md");
    assert.equal(written, "written");
    assert.match(said, /^\[Callosum\] Changes that mira\/two-plan.md made there were merged/);
    assert.match(said, /^\| \+theirs 3 /m);
    assert.deepEqual(more, []);
});

test("a call within another has its sentence in the other's result", async () => {
    const within = ({ event, ctx }) => {
        const id = `tool_search_code:${event.toolCallId}:write:1`;
        return { event: { ...event, toolCallId: id }, ctx: { ...ctx, toolCallId: id } };
    };
    assert.match((await both(host, "within.md", within))[1], /were merged/);
});

test("an OpenClaw whose results cannot be changed tells of the merge before the next turn", async () => {
    const old = new Host({}, { broken: ["registerAgentToolResultMiddleware"] });
    assert.deepEqual(await both(old, "later.md"), ["written"]);
    const ctx = { runId: "run-one-later.md", sessionKey: "one-later.md" };
    await old.call("agent_end", {}, ctx);
    const told = await old.call("before_prompt_build", { prompt: "Go on." }, { ...ctx, runId: "run-next" });
    assert.match(told.prependContext, /^\[Callosum\] Changes that mira\/two-later.md made there/);
});

test("params that are changed after the policy has judged them are judged again", async () => {
    const { event, ctx, session } = callOf("cron", job("changed-a"));
    assert.equal(await host.call("policy", event, ctx), undefined);
    assert.equal(await host.call("before_tool_call", { ...event, params: job("changed-b") }, ctx), undefined);
    await host.after({ ...event, params: job("changed-b"), result: DONE }, ctx);
    assert.deepEqual(await story(session), [
        "intercept cron allow",
        "complete cron cancelled",
        "intercept cron allow",
        "complete cron done",
    ]);
});

// --- how it ended -------------------------------------------------------------------------------

const text = (said, details = {}) => ({ content: [{ type: "text", text: said }], details });
const OUTCOMES = [
    ["a result", { result: text("ok") }, "done"],
    ["neither result nor error", {}, "unknown"],
    ["an error", { error: "no such channel" }, "failed"],
    ["a timeout", { error: "the request timed out" }, "unknown"],
    ["a lost connection", { error: "read ECONNRESET" }, "unknown"],
    ["an aborted run", { error: "Aborted" }, "unknown"],
    [
        "blocked by another plugin",
        { error: "no", result: text("no", { status: "blocked", reason: "no" }) },
        "cancelled",
    ],
    [
        "a hook of another plugin failed",
        { error: "Tool call blocked because before_tool_call hook failed" },
        "cancelled",
    ],
    ["no way to approve", { error: "Plugin approval unavailable: nobody is there" }, "cancelled"],
    ["an exit code", { result: text("", { status: "completed", exitCode: 2 }) }, "failed"],
    [
        "an exit code of a command that was stopped",
        { result: text("", { status: "completed", exitCode: 137 }) },
        "unknown",
    ],
    ["a signal", { result: text("", { status: "failed", exitCode: null, exitSignal: "SIGKILL" }) }, "unknown"],
    ["a status that speaks of no command", { result: text("", { status: "accepted", runId: "r" }) }, "done"],
    ["a status that is a timeout", { result: text("", { status: "timeout" }) }, "unknown"],
    ["a status that is an error", { result: text("", { status: "error", error: "forbidden" }) }, "failed"],
    ["a result that says it is an error", { result: { ...text("refused"), isError: true } }, "failed"],
];
for (const [what, after, outcome] of OUTCOMES) {
    test(`${what} is ${outcome}`, async () => {
        const { event, ctx, session } = callOf("cron", job(`outcome-${what}`));
        assert.equal(await host.before(event, ctx), undefined);
        await host.after({ ...event, ...after }, ctx);
        assert.deepEqual(await story(session), ["intercept cron allow", `complete cron ${outcome}`]);
    });
}

test("what comes back without having been asked about is nobody's outcome", async () => {
    const { event, ctx, session } = callOf("no_such_tool", {});
    await host.after({ ...event, error: "Tool no_such_tool not found" }, ctx);
    assert.deepEqual(await story(session), []);
});

test("a turn that ends without a report leaves what it began unknown", async (t) => {
    const { event, ctx, session, run } = callOf("cron", job("turn-over"));
    assert.equal(await host.before(event, ctx), undefined);
    t.mock.timers.enable({ apis: ["setTimeout"] });
    await host.call("agent_end", { runId: run }, { runId: run });
    t.mock.timers.tick(6000);
    t.mock.timers.reset();
    await until(async () => (await story(session)).length === 2);
    assert.equal((await story(session))[1], "complete cron unknown");
});

test("a run that is given up while the gate is asked leaves nothing open", async () => {
    const { event, ctx, session } = callOf("cron", job("aborted"));
    const asking = host.call("policy", event, ctx);
    await host.after({ ...event, error: "Aborted" }, ctx);
    await asking;
    assert.deepEqual(await story(session), ["intercept cron allow", "complete cron cancelled"]);
});

test("params of many megabytes are judged, by their beginnings and digests", async () => {
    const session = "agent:main:large";
    for (const letter of ["a", "b"]) {
        const params = { path: "/home/ann/ws/large.txt", edits: [{ oldText: "x", newText: letter.repeat(6_000_000) }] };
        const { event, ctx } = callOf("edit", params, { session });
        assert.equal(await host.before(event, ctx), undefined);
        await host.after({ ...event, result: DONE }, ctx);
    }
    assert.deepEqual(await story(session), [
        "intercept edit allow",
        "complete edit done",
        "intercept edit allow",
        "complete edit done",
    ]);
});

// --- commands that go on ------------------------------------------------------------------------

const mail = "curl smtp://mail.example.com --mail-rcpt anna@example.com -T letter.txt";
const running = (name) => text("Command still running", { status: "running", sessionId: name, pid: 7 });

async function inBackground(name, params = {}) {
    const made = callOf("exec", { command: mail.replace("anna", name), background: true, ...params });
    assert.equal(await host.before(made.event, made.ctx), undefined);
    await host.after({ ...made.event, result: running(name) }, made.ctx);
    return made;
}

async function polled(made, name, action, details) {
    const { event, ctx } = callOf("process", { action, sessionId: name }, { session: made.session });
    assert.equal(await host.before(event, ctx), undefined);
    await host.after({ ...event, result: text("", details) }, ctx);
}

const mine = async (session) => (await story(session)).filter((line) => !line.includes(" process "));

test("a command works in the folder that it names, below its session's", async () => {
    await host.call(
        "before_prompt_build",
        { prompt: "" },
        { runId: "run-dir", sessionKey: "agent:main:dir", workspaceDir: "/w" },
    );
    for (const [workdir, folder] of [
        ["sub", "/w/sub"],
        ["/else", "/else"],
        [undefined, "/w"],
    ]) {
        const params = { command: "git push", workdir };
        const { event, ctx } = callOf("exec", params, { session: "agent:main:dir", run: "run-dir" });
        await host.before(event, ctx);
        assert.equal((await journal("agent:main:dir")).at(-1).body.cwd, folder);
    }
});

test("a command in the background keeps its lease until `process` says that it has ended", async () => {
    const made = await inBackground("clear-basin");
    assert.deepEqual(await mine(made.session), ["intercept exec allow"]);
    const { locks } = await ask("GET", "/status?contextKey=email:clear-basin@example.com");
    assert.equal(locks.length, 1);
    await polled(made, "clear-basin", "poll", { status: "running", sessionId: "clear-basin" });
    assert.deepEqual(await mine(made.session), ["intercept exec allow"]);
    await polled(made, "clear-basin", "poll", { status: "completed", sessionId: "clear-basin", exitCode: 0 });
    assert.deepEqual(await mine(made.session), ["intercept exec allow", "complete exec done"]);
});

test("one that is killed may have done its work", async () => {
    const made = await inBackground("brisk-otter");
    await polled(made, "brisk-otter", "kill", { status: "failed" });
    assert.equal((await mine(made.session)).at(-1), "complete exec unknown");
});

test("one that has ended, and of which nobody asks how, is unknown and prolonged no more", async (t) => {
    const own = new Host({ deadlineMs: 9000 }); // with timers of its own
    t.mock.timers.enable({ apis: ["setTimeout", "Date"], now: Date.now() });
    const child = spawn("cat");
    const made = callOf("exec", { command: mail.replace("anna", "orphan"), background: true });
    await own.before(made.event, made.ctx);
    const details = { status: "running", sessionId: "lone-fox", pid: child.pid };
    await own.after({ ...made.event, result: text("", details) }, made.ctx);
    t.mock.timers.tick(6000);
    assert.deepEqual(await mine(made.session), ["intercept exec allow"]);
    child.stdin.end();
    await new Promise((resolve) => child.on("close", resolve));
    for (let looks = 0; looks < 13; looks++) t.mock.timers.tick(5000);
    t.mock.timers.reset();
    await until(async () => (await mine(made.session)).at(-1) === "complete exec unknown");
});

test("the list of commands tells of all that have ended", async () => {
    const made = await inBackground("mild-harbor");
    const { event, ctx } = callOf("process", { action: "list" }, { session: made.session });
    await host.before(event, ctx);
    await host.after(
        { ...event, result: text("", { sessions: [{ sessionId: "mild-harbor", status: "failed", exitCode: 4 }] }) },
        ctx,
    );
    assert.equal((await mine(made.session)).at(-1), "complete exec failed");
});

// --- wrappers, direct calls, copies, sub-agents --------------------------------------------------

test("a wrapper is not judged, nor is the outer call of code mode; what they call is", async () => {
    const outer = callOf(
        "exec",
        { code: "tools.message(...)", command: "tools.message(...)" },
        { toolKind: "code_mode_exec" },
    );
    assert.equal(await host.before(outer.event, outer.ctx), undefined);
    const search = callOf("tool_search", { query: "x" }, { session: outer.session });
    assert.equal(await host.before(search.event, search.ctx), undefined);
    assert.deepEqual(await story(outer.session), []);
    const inner = callOf("message", send("inner", "hello inside"), {
        session: outer.session,
        id: `tool_search_code:${outer.id}:message:1`,
    });
    assert.equal(await host.before(inner.event, inner.ctx), undefined);
    assert.deepEqual(await story(outer.session), ["intercept message allow"]);
});

test("a call through /tools/invoke is gated, has no report, and its lease is not the gateway's", async () => {
    const ctx = { toolName: "cron", sessionKey: "agent:main:http1", toolCallId: "http-direct-operator-1" };
    const event = { toolName: "cron", params: job("direct"), toolCallId: "http-direct-operator-1" };
    assert.equal(await host.before(event, ctx), undefined);
    const { locks } = await ask("GET", "/status?contextKey=cron:direct");
    assert.equal(locks.length, 1);
    const gated = callOf("cron", job("gated"));
    await host.before(gated.event, gated.ctx);
    const [entry] = await journal("agent:main:http1");
    assert.equal(entry.body.callId, "-:http-direct-operator-1");
});

test("the two copies of the modules share one connection and what they know", async () => {
    const links = globalThis[Symbol.for("callosum.openclaw")];
    const before = links.size;
    const one = new Host({}, { folder: copyOfPlugin() });
    const other = new Host({}, { folder: copyOfPlugin(), mode: "discovery" });
    const { event, ctx, session } = callOf("cron", job("copies"));
    assert.equal(await other.before(event, ctx), undefined);
    await one.after({ ...event, result: DONE }, ctx);
    assert.deepEqual(await story(session), ["intercept cron allow", "complete cron done"]);
    assert.equal(links.size, before);
});

test("what an ancestor holds is not held against its sub-agent, against a stranger it is", async () => {
    const held = { instance: "mira", session: "agent:main:parent", contextKey: "channel:family", tier: 4 };
    assert.equal((await ask("POST", "/lock", held)).acquired, true);
    const childSessionKey = "agent:main:subagent:1";
    await host.call(
        "subagent_spawned",
        { childSessionKey, agentId: "main", runId: "r" },
        { requesterSessionKey: "agent:main:parent" },
    );
    const stranger = callOf("message", send("family", "Dinner is at seven."));
    assert.match(await host.before(stranger.event, stranger.ctx), /agent:main:parent/);
    const child = callOf("message", send("family", "Dinner is at seven."), { session: childSessionKey });
    assert.equal(await host.before(child.event, child.ctx), undefined);
});

test("two sessions that act on one message are told of it, in whatever words", async () => {
    const cause = { messageId: "m-77", sessionKey: "agent:main:one" };
    const turns = [
        ["agent:main:one", "run-one"],
        ["agent:main:two", "run-two"],
    ];
    const texts = [
        "Your parcel leaves on Monday morning with the first van.",
        "We ship everything next week, promise!",
    ];
    const answers = [];
    for (const [number, [session, run]] of turns.entries()) {
        await host.call(
            "message_received",
            { ...cause, content: "Where is it?", from: "ann" },
            { channelId: "telegram", conversationId: "9", sessionKey: session },
        );
        await host.call(
            "before_model_resolve",
            { prompt: "Where is it?" },
            { runId: run, sessionKey: session, trigger: "user" },
        );
        const { event, ctx } = callOf("message", send("9", texts[number]), { session, run });
        answers.push(await host.before(event, ctx));
        await host.after({ ...event, result: DONE }, ctx);
    }
    assert.equal(answers[0], undefined);
    assert.match(answers[1], /^\[Callosum\]/);
});

// --- deliveries ---------------------------------------------------------------------------------

const delivery = (to, content, sessionKey) => [
    { to: `telegram:${to}`, content, metadata: { channel: "telegram", mediaUrls: [] } },
    { channelId: "telegram", accountId: "default", conversationId: `telegram:${to}`, sessionKey },
];

test("a delivery that repeats another session's is not made, and its session is told with its next turn", async () => {
    const content = "Your table for four is booked for tonight at eight o'clock.";
    const [event, ctx] = delivery(55, content, "agent:main:first");
    assert.equal(await host.call("message_sending", event, ctx), undefined);
    await host.call("message_sent", { ...event, success: true, messageId: "1" }, ctx);
    const [same, elsewhere] = delivery(55, content, "agent:main:second");
    const stopped = await host.call("message_sending", same, elsewhere);
    assert.equal(stopped.cancel, true);
    assert.match(stopped.cancelReason, /^\[Callosum\]/);
    const turn = { runId: "run-told", sessionKey: "agent:main:second", trigger: "user" };
    const { prependContext } = await host.call("before_prompt_build", { prompt: "?" }, turn);
    assert.match(prependContext, /was not delivered\. \[Callosum\]/);
    const next = await host.call("before_prompt_build", { prompt: "?" }, turn);
    assert.doesNotMatch(next?.prependContext ?? "", /was not delivered/);
});

for (const [what, sent, outcome] of [
    ["refused", { success: false, error: "Forbidden: bot was blocked" }, "failed"],
    ["cut off", { success: false, error: "request timed out" }, "unknown"],
]) {
    test(`a delivery that is ${what} is ${outcome}`, async () => {
        const session = `agent:main:${what.replace(" ", "-")}`;
        const [event, ctx] = delivery(56, `A longer sentence that is ${what} on its way to the reader.`, session);
        assert.equal(await host.call("message_sending", event, ctx), undefined);
        await host.call("message_sent", { ...event, ...sent }, ctx);
        assert.deepEqual(await story(session), ["intercept message allow", `complete message ${outcome}`]);
    });
}

test("a long reply that is sent in pieces is one action", async () => {
    const [one, two] = ["First half of the long answer to Ann.", "Second half of the long answer to Ann."];
    const session = "agent:main:pieces";
    const ctx = { channelId: "telegram", conversationId: "telegram:57", sessionKey: session, runId: "run-pieces" };
    assert.equal(
        await host.call(
            "reply_payload_sending",
            { payload: { text: `${one}\n\n${two}` }, kind: "final", channel: "telegram" },
            ctx,
        ),
        undefined,
    );
    for (const piece of [one, two]) {
        const [event, there] = delivery(57, piece, session);
        assert.equal(await host.call("message_sending", event, there), undefined);
        await host.call("message_sent", { ...event, success: true }, there);
    }
    assert.deepEqual(await story(session), ["intercept message allow", "complete message done"]);
});

test("deliveries can be left alone", async () => {
    assert.equal(new Host({ deliveries: false }).hooks.has("message_sending"), false);
});

// --- what is told, what is served ----------------------------------------------------------------

test("the corpus hears of messages, models, parsed calls and compaction, in the session's name", async () => {
    const session = "agent:main:telling";
    const ctx = { runId: "run-telling", sessionKey: session, trigger: "cron", jobId: "job-1" };
    await host.call("before_model_resolve", { prompt: "Look at the mail" }, ctx);
    await host.call("llm_input", { provider: "fake", model: "fake-1" }, ctx);
    await host.call(
        "model_call_ended",
        { runId: "run-telling", sessionKey: session, provider: "fake", outcome: "error", errorCategory: "overloaded" },
        ctx,
    );
    const message = {
        role: "assistant",
        provider: "fake",
        model: "fake-1",
        usage: { totalTokens: 42 },
        content: [{ type: "toolCall", id: "c1", name: "read", arguments: { path: "x" } }],
    };
    await host.call("before_message_write", { message }, { sessionKey: session });
    const { event, ctx: there } = callOf("read", { path: "x" }, { session, run: "run-telling", id: "c1" });
    await host.before(event, there);
    await host.call("before_compaction", { messageCount: 9, tokenCount: 9000 }, ctx);
    await host.call("after_compaction", { messageCount: 3, tokenCount: 3000, compactedCount: 6 }, ctx);
    const told = await until(() => {
        const found = logged().filter((one) => one.instance === `mira/${session}`);
        const all = [
            "input.received",
            "input.routed",
            "llm.error",
            "llm.response",
            "tool.parsed",
            "tool.called",
            "context.trimmed",
        ];
        return all.every((type) => found.some((one) => one.type === type)) && found;
    });
    const of = (type) => told.find((one) => one.type === type);
    assert.equal(of("input.received").content, "Look at the mail");
    assert.equal(of("llm.response").tokens, 42);
    assert.deepEqual(
        [of("context.trimmed").before, of("context.trimmed").after, of("context.trimmed").dropped],
        [9000, 3000, 6],
    );
    assert.equal(of("tool.parsed").calls[0].callId, of("tool.called").callId);
});

test("a gateway says that it lives, with its process, until it stops", async () => {
    const gateway = new Host({ heartbeatSeconds: 600 });
    await gateway.call("gateway_start", { port: 1 }, { port: 1, workspaceDir: "/home/ann/ws" });
    const beat = await until(() =>
        logged().find((one) => one.type === "health.ok" && one.metrics.everySeconds === 600),
    );
    assert.equal(beat.instance, `mira/openclaw:${process.pid}`);
    assert.equal(beat.metrics.pid, process.pid);
    await gateway.call("gateway_stop", {});
});

test("serverUrl is another name of url", async () => {
    const { settingsOf } = await import("../../../callosum/hosts/openclaw/settings.js");
    const found = settingsOf({ serverUrl: "http://gate:7700/" });
    assert.deepEqual([found.mode, found.url], ["remote", "http://gate:7700"]);
    assert.equal(settingsOf({ serverUrl: "http://old:1", url: "http://gate:7700" }).url, "http://gate:7700");
    assert.equal(settingsOf({ mode: "local", serverUrl: "http://gate:7700" }).url, undefined);
});

test("ping tells that the gate does not answer, and which it is", async () => {
    const { pingOf } = await import("../../../callosum/hosts/openclaw/routes.js");
    const gate = { ask: () => Promise.reject(new Error("nobody is there")) };
    const link = { gate, settings: { mode: "remote", url: "http://gate:7700" } };
    const said = await new Promise((resolve) => pingOf(link)({ respond: (...given) => resolve(given) }));
    const away = { ok: false, remote: false, error: "nobody is there", mode: "remote", serverUrl: "http://gate:7700" };
    assert.deepEqual(said, [true, away]);
});

test("the gateway's RPC tells status and journal", async () => {
    const call = (name, params) =>
        new Promise((resolve) => host.methods.get(name)({ params, respond: (...given) => resolve(given) }));
    const [ok, status] = await call("callosum.status", { contextKey: "channel:held-1" });
    assert.equal(ok, true);
    assert.equal(status.locks[0].instance, "doug");
    assert.deepEqual(await call("callosum.ping", {}), [true, { ok: true, remote: false, mode: "local" }]);
    const [, page] = await call("callosum.journal", { limit: 2 });
    assert.equal(page.entries.length, 2);
    const [fine, , error] = await call("callosum.journal", { limit: -1 });
    assert.equal(fine, false);
    assert.equal(error.code, "INVALID_REQUEST");
});

test("the gateway serves what acting needs under its own address, and nothing else", async () => {
    const [route] = host.routes;
    assert.deepEqual([route.path, route.auth, route.match], ["/callosum", "gateway", "prefix"]);
    const server = http.createServer(route.handler).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const at = (path, options) => fetch(`http://127.0.0.1:${server.address().port}${path}`, options);
    const post = (path, body) => at(path, { method: "POST", body: JSON.stringify(body) });
    const decision = await (
        await post("/callosum/intercept", { instance: "eve", tool: "message", params: send("route", "hi") })
    ).json();
    assert.equal(decision.proceed, true);
    assert.deepEqual(
        await (await post("/callosum/complete", { instance: "eve", id: decision.id, result: {} })).json(),
        { ok: true, id: decision.id, state: "done" },
    );
    assert.equal(
        (await (await post("/callosum/lock", { instance: "eve", contextKey: "x:route", tier: 4 })).json()).acquired,
        true,
    );
    assert.equal((await (await at("/callosum/status?contextKey=x:route")).json()).locks.length, 1);
    assert.equal((await (await at("/callosum/lock/x:route?instance=eve", { method: "DELETE" })).json()).ok, true);
    assert.equal((await post("/callosum/intercept", { instance: "eve" })).status, 400);
    for (const path of ["/callosum/approvals/1", "/callosum/resolve", "/callosum/events"])
        assert.equal((await post(path, {})).status, 404);
    assert.equal((await at("/callosum/../status")).status, 404);
    server.close();
});
