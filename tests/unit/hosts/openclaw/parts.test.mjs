// The plugin's parts that speak to nobody.
import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";

const part = (name) => import(path.join(process.env.CALLOSUM_PLUGIN, name));
const { blake2b } = await part("blake2b.js");
const { Bounded, nameOf } = await part("names.js");
const { backgroundOf, endedOf, outcomeOf } = await part("outcome.js");
const { execFolder, socketPath, stateFolder, thisProcess } = await part("machine.js");
const { settingsOf } = await part("settings.js");
const { goesOn, tableIn, tableOf, tierOf } = await part("tiers.js");
const { Turns } = await part("turns.js");

test("the digest is BLAKE2b's", () => {
    // The test vector of RFC 7693; lengths around the size of a block, as hashlib has them.
    const abc = blake2b("abc", 64);
    assert.equal(abc.slice(0, 64), "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1");
    assert.equal(abc.slice(64), "7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923");
    assert.equal(blake2b("", 32), "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
    const lengths = {
        127: "8e70a0af447c4ffc",
        128: "901ce374e8e12402",
        129: "18de14b9d8eea5a3",
        256: "1350ad21b0246597",
    };
    for (const [length, digest] of Object.entries(lengths)) assert.equal(blake2b("x".repeat(length), 8), digest);
});

test("names are what the gate takes", () => {
    assert.equal(nameOf("agent:main:main"), "agent:main:main");
    assert.equal(nameOf("agent:main:café 🦞"), "agent:main:café 🦞");
    for (const bad of ["", "a\nb", "x".repeat(257), "a\u200bb", "\ud800"]) {
        const made = nameOf(bad);
        assert.ok(made.length > 0 && made.length <= 256, made);
        assert.doesNotMatch(made, /[\u0000-\u001f\u200b]|\p{Surrogate}/u);
    }
    assert.notEqual(nameOf("a\nb"), nameOf("a\tb"));
});

test("a bounded map forgets what was put in longest ago, and says so", () => {
    const gone = [];
    const map = new Bounded(2, (value) => gone.push(value));
    map.set("a", 1).set("b", 2).set("a", 3).set("c", 4);
    assert.deepEqual([...map.keys()], ["a", "c"]);
    assert.deepEqual(gone, [2]);
});

for (const [what, params, tool, table, tier] of [
    ["a tool of the table", {}, "read", { read: 0 }, 0],
    ["a tool that is not in it", {}, "wire_transfer", { read: 0 }, 3],
    ["a host's own read without a table", {}, "read", undefined, 0],
    ["another tool without a table", {}, "wire_transfer", undefined, 3],
    ["a shell, whatever the table says", {}, "exec", { exec: 1 }, 3],
    ["a shell behind a prefix", {}, "mcp__box__run_command", { mcp__box__run_command: 0 }, 3],
    ["a shell of an editor", {}, "run_terminal_cmd", { run_terminal_cmd: 1 }, 3],
    ["a shell of Windows", {}, "PowerShell", { PowerShell: 1 }, 3],
    ["what a shell said", {}, "BashOutput", { BashOutput: 0 }, 0],
    ["a shell that the table has higher", {}, "exec", { exec: 4 }, 4],
    ["a raised tier", { _tier: 4 }, "read", { read: 0 }, 4],
    ["a fraction", { _tier: 2.2 }, "read", { read: 0 }, 3],
    ["nonsense", { _tier: "high" }, "read", { read: 0 }, 0],
    ["a tier that would lower it", { _tier: 0 }, "message", { message: 4 }, 4],
    ["a look at a command", { action: "poll" }, "process", {}, 0],
    ["words to a command", { action: "submit" }, "process", {}, 3],
]) {
    test(`${what} counts as ${tier}`, () =>
        assert.equal(tierOf(tool, params, table && new Map(Object.entries(table))), tier));
}

test("what goes on without the gate", () => {
    assert.deepEqual(
        [0, 1, 2, 3, 4].map((tier) => goesOn(tier, "tier")),
        [true, true, true, false, false],
    );
    assert.deepEqual(
        [0, 1, 4].map((tier) => goesOn(tier, "closed")),
        [true, false, false],
    );
    assert.equal(goesOn(4, "open"), true);
});

test("a table that is none is not used", () => {
    for (const bad of [null, 1, {}, { tools: [] }, { tools: { read: 5 } }, { tools: { read: "0" } }])
        assert.equal(tableOf(bad), undefined);
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "table-"));
    assert.equal(tableIn(folder), undefined);
    for (const [text, found] of [
        ["{", undefined],
        ['{"tools": {"read": 0}}', 0],
    ]) {
        fs.writeFileSync(path.join(folder, "fallback.json"), text);
        assert.equal(tableIn(folder)?.get("read"), found);
    }
    fs.rmSync(folder, { recursive: true });
});

test("the state folder is where Callosum has it", () => {
    const home = os.homedir();
    assert.equal(stateFolder("~/agents/state", {}), `${home}/agents/state`);
    assert.equal(stateFolder(undefined, { CALLOSUM_STATE: "/srv/callosum/" }), "/srv/callosum");
    assert.equal(stateFolder(undefined, { XDG_STATE_HOME: "/srv" }), "/srv/callosum");
    if (process.platform === "linux") assert.equal(stateFolder(undefined, {}), `${home}/.local/state/callosum`);
});

test("the socket and the process are where the gate of this machine has them", () => {
    assert.equal(socketPath(process.env.CALLOSUM_STATE), process.env.CALLOSUM_SOCKET);
    const deep = `/srv/${"deep/".repeat(30)}state`;
    assert.equal(socketPath(deep, { XDG_RUNTIME_DIR: "/run/user/7" }), "/run/user/7/32a3f6d86523.sock");
    assert.equal(socketPath(deep, {}), path.join(os.homedir(), ".callosum", "32a3f6d86523.sock"));
    if (process.platform !== "linux") return;
    const [pid, started, machine] = thisProcess();
    assert.equal(pid, process.pid);
    const uptime = Number(fs.readFileSync("/proc/uptime", "utf8").split(" ")[0]);
    assert.ok(started > 0 && started <= uptime + 1);
    assert.match(machine, /^[0-9a-f]{16}$/);
});

test("`agent exec` works where its command line says", () => {
    const folder = (...words) => execFolder(["node", "openclaw.mjs", ...words], "/here");
    assert.equal(folder("agent", "exec", "do it"), "/here");
    assert.equal(folder("agent", "exec", "--cwd", "/there", "do it"), "/there");
    assert.equal(folder("agent", "exec", "--json", "--cwd=there", "do it"), "/here/there");
    assert.equal(folder("agent", "--message", "exec"), undefined);
    assert.equal(folder("gateway", "run"), undefined);
});

test("settings say what is wrong, and what holds where they say nothing", () => {
    const plain = settingsOf({});
    assert.deepEqual(
        [plain.instance, plain.mode, plain.failMode, plain.deadline, plain.seconds, plain.deliveries],
        ["openclaw", "local", "tier", 900, 30, true],
    );
    assert.equal(settingsOf({ url: "http://gate:7700/" }).url, "http://gate:7700");
    assert.equal(settingsOf({ mode: "remote" }).url, "http://127.0.0.1:7700");
    assert.equal(settingsOf({ mode: "local", url: "http://x", token: "t" }).token, undefined);
    for (const bad of [
        { mode: "cloud" },
        { failMode: "maybe" },
        { instanceId: "" },
        { instanceId: 7 },
        { mode: "remote", url: "ftp://x" },
        { mode: "remote", url: "http://user@x" },
        { deadlineMs: 1 },
        { deadlineMs: "1" },
        { heartbeatSeconds: 1 },
        { command: [] },
        { command: "callosum" },
    ]) {
        assert.throws(() => settingsOf(bad), Error, JSON.stringify(bad));
    }
});

test("a command goes on, or has ended, by what its details say", () => {
    assert.equal(backgroundOf({ result: { details: { status: "running", sessionId: "x" } } }), "x");
    assert.equal(backgroundOf({ error: "no", result: { details: { status: "running", sessionId: "x" } } }), undefined);
    assert.equal(backgroundOf({ result: { details: { status: "completed" } } }), undefined);
    assert.equal(endedOf({ status: "running" }), undefined);
    assert.equal(endedOf(undefined), undefined);
    assert.equal(endedOf({ status: "completed", exitCode: 0 }).outcome, "done");
    assert.equal(endedOf({ status: "completed", exitCode: 0, noOutputTimedOut: true }).outcome, "unknown");
    assert.equal(endedOf({ status: "failed", exitCode: 1 }).outcome, "failed");
    assert.equal(endedOf({ exitSignal: "SIGTERM", exitCode: null }).outcome, "unknown");
    assert.equal(outcomeOf({ error: "x".repeat(9000), result: null }).result.error.length, 2000);
});

test("a turn's cause is the message, the firing or the heartbeat that began it", () => {
    const turns = new Turns();
    turns.received("s", { channel: "telegram", conversation: "42", message: "7" });
    turns.seen({ runId: "r1", sessionKey: "s", trigger: "user", workspaceDir: "/w" });
    turns.received("s", { channel: "telegram", conversation: "42", message: "8" });
    assert.equal(turns.originOf("r1", "s"), "message:telegram:42:7");
    turns.fired("job", 1000);
    turns.seen({ runId: "r2", sessionKey: "c", trigger: "cron", jobId: "job" });
    assert.equal(turns.originOf("r2", "c"), "cron:job:1000");
    turns.seen({ runId: "r3", sessionKey: "s", trigger: "heartbeat" });
    assert.equal(turns.originOf("r3", "s"), "heartbeat:r3");
    assert.equal(turns.originOf("r9", "nobody"), undefined);
});

test("a turn's folder is its own, else its session's, else the gateway's", () => {
    const turns = new Turns();
    assert.equal(turns.cwdOf("r", "s"), undefined);
    turns.works("/gateway");
    assert.equal(turns.cwdOf("r", "s"), "/gateway");
    turns.seen({ runId: "r", sessionKey: "s", workspaceDir: "/session" });
    assert.equal(turns.cwdOf("r", "s"), "/session");
    assert.equal(turns.cwdOf("another", "s"), "/session");
    assert.equal(turns.cwdOf("another", "t"), "/gateway");
});

test("only what a person typed is what a turn serves", () => {
    const turns = new Turns();
    for (const [runId, trigger] of [["r1", "user"], ["r2", "heartbeat"], ["r3", "cron"]]) {
        const ctx = { runId, sessionKey: "s", trigger };
        turns.seen(ctx);
        turns.prompted(ctx, `\ud800${"x".repeat(2000)}`);
    }
    assert.equal(turns.purposeOf("r1"), `\ufffd${"x".repeat(999)}`);
    assert.equal(turns.purposeOf("r2"), undefined);
    assert.equal(turns.purposeOf("r3"), undefined);
    assert.equal(turns.purposeOf("r9"), undefined);
});

test("the model has seen an answer once it was asked again", () => {
    const turns = new Turns();
    turns.seen({ runId: "r", sessionKey: "s" });
    turns.answered("r", 5);
    assert.equal(turns.seenBy("r"), undefined);
    turns.asked("r");
    turns.answered("r", 7);
    assert.equal(turns.seenBy("r"), 5);
});
