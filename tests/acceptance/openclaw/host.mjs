// What OpenClaw is to its plugin: hooks are registered and called as it calls them. The payloads are recorded ones.
import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";

export const STATE = process.env.CALLOSUM_STATE;
export const SOCKET = path.join(STATE, "gate.sock");
export const PLUGIN = process.env.CALLOSUM_PLUGIN;
const recorded = JSON.parse(fs.readFileSync(new URL("./recorded.json", import.meta.url), "utf8"));

/** A copy of the plugin's modules of its own, as OpenClaw makes one for each time that it loads a plugin. */
export function copyOfPlugin() {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "plugin-"));
    process.on("exit", () => fs.rmSync(folder, { recursive: true, force: true }));
    for (const name of fs.readdirSync(PLUGIN)) {
        if (/\.(?:js|json)$/.test(name)) fs.copyFileSync(path.join(PLUGIN, name), path.join(folder, name));
    }
    return folder;
}

/** A host with the plugin in it. `broken` names what of its interface throws. */
export class Host {
    hooks = new Map();
    policies = [];
    changes = [];
    methods = new Map();
    routes = [];
    said = [];

    constructor(config = {}, { folder = PLUGIN, mode = "full", broken = [] } = {}) {
        const guard =
            (name, register) =>
            (...given) => {
                if (broken.includes(name)) throw new Error(`${name} is not what it was`);
                register(...given);
            };
        const api = {
            registrationMode: mode,
            pluginConfig: { mode: "local", state: STATE, instanceId: "mira", deadlineMs: 8000, ...config },
            logger: { warn: (text) => this.said.push(text), error: (text) => this.said.push(text), info: () => {} },
            on: guard("on", (name, handler) => this.hooks.set(name, [...(this.hooks.get(name) ?? []), handler])),
            registerTrustedToolPolicy: guard("registerTrustedToolPolicy", (policy) => this.policies.push(policy)),
            registerAgentToolResultMiddleware: guard("registerAgentToolResultMiddleware", (change) =>
                this.changes.push(change),
            ),
            registerGatewayMethod: guard("registerGatewayMethod", (name, handler) => this.methods.set(name, handler)),
            registerHttpRoute: guard("registerHttpRoute", (route) => this.routes.push(route)),
        };
        createRequire(import.meta.url)(path.join(folder, "index.js")).default.register(api);
    }

    /** Calls a hook with what was recorded of it, changed as a test needs it. */
    async play(name, { event = {}, ctx = {} } = {}) {
        const { hook, ...told } = recorded[name];
        return this.call(hook, { ...told.event, ...event }, { ...told.ctx, ...ctx });
    }

    async call(hook, event, ctx = {}) {
        const handlers =
            hook === "policy" ? this.policies.map((policy) => policy.evaluate) : (this.hooks.get(hook) ?? []);
        let answer;
        for (const handler of handlers) answer = (await handler(structuredClone(event), ctx)) ?? answer;
        return answer;
    }

    /** A tool call on its way to run: what the model is told if it may not, `undefined` if it may. */
    async before(event, ctx) {
        const ruled = await this.call("policy", event, ctx);
        if (ruled?.allow === false) return ruled.reason;
        const params = ruled?.params ?? event.params;
        const hooked = await this.call("before_tool_call", { ...event, params }, ctx);
        return hooked?.block ? hooked.blockReason : undefined;
    }

    after(event, ctx) {
        return this.call("after_tool_call", event, ctx);
    }

    /** What the model reads of a result, as lines. */
    async shown({ toolName, toolCallId }, ctx, result) {
        let found = result;
        for (const change of this.changes) {
            const told = { toolName, toolCallId, result: found };
            found = (await change(told, { ...ctx, runtime: "openclaw" }))?.result ?? found;
        }
        return found.content.map((part) => part.text);
    }

    /** A call that runs, `work` with its params; what the model reads of it. */
    async run({ event, ctx }, work) {
        const ruled = await this.call("policy", event, ctx);
        if (ruled?.allow === false) return [ruled.reason];
        const params = ruled?.params ?? event.params;
        const hooked = await this.call("before_tool_call", { ...event, params }, ctx);
        assert.deepEqual(hooked?.params ?? params, params);
        const result = { content: [{ type: "text", text: work(params) }], details: {} };
        const lines = await this.shown(event, ctx, result);
        await this.after({ ...event, params, result }, ctx);
        return lines;
    }
}

let made = 0;

/** A tool call of a session of its own, with what the host says of it before and after. */
export function callOf(
    toolName,
    params,
    { session = `agent:main:t${++made}`, run = `run-${++made}`, id = `call_${++made}`, ...more } = {},
) {
    const event = { toolName, params, runId: run, toolCallId: id, ...more };
    const ctx = {
        toolName,
        agentId: "main",
        sessionKey: session,
        sessionId: `id-of-${session}`,
        runId: run,
        toolCallId: id,
    };
    return { event, ctx, session, run, id };
}

export const DONE = { content: [{ type: "text", text: "done" }], details: {} };

/** One request to the gate itself. */
export function ask(method, target, body, socketPath = SOCKET) {
    return new Promise((resolve, reject) => {
        const request = http.request(
            { socketPath, method, path: target, headers: { host: "localhost" } },
            (response) => {
                const pieces = [];
                response.on("data", (piece) => pieces.push(piece));
                response.on("end", () => resolve(JSON.parse(Buffer.concat(pieces).toString())));
            },
        );
        request.on("error", reject);
        request.end(body === undefined ? undefined : JSON.stringify(body));
    });
}

/** What the journal has of a session, oldest first. */
export async function journal(session) {
    const query = new URLSearchParams({ session: `mira/${session}`, limit: "1000" });
    return (await ask("GET", `/journal?${query}`)).entries;
}

/** The journal of a session as words: `intercept message allow`, `complete message done`. */
export async function story(session) {
    return (await journal(session)).map((entry) => `${entry.event} ${entry.tool} ${entry.outcome ?? entry.verdict}`);
}

/** Asks again and again until the answer is true, for what is done beside the calls. */
export async function until(look, milliseconds = 60_000) {
    const ends = performance.now() + milliseconds;
    for (;;) {
        const found = await look();
        if (found) return found;
        if (performance.now() > ends) throw new Error(`it did not come true in time: ${look}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
}

/** What the corpus was told, as the daily log has it. */
export function logged() {
    const folder = path.join(STATE, "brain", "corpus");
    const names = fs.existsSync(folder) ? fs.readdirSync(folder).filter((name) => name.endsWith(".log.md")) : [];
    const lines = names.flatMap((name) => fs.readFileSync(path.join(folder, name), "utf8").split("\n"));
    return lines.flatMap((line) => {
        const found = /^\S+ \| (\S+) \| (.*)$/.exec(line);
        return found ? [{ type: found[1], ...JSON.parse(found[2]) }] : [];
    });
}
