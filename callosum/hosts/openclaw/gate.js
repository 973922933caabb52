/**
 * Connect to the gate: send requests within a deadline, and start the gate if this machine has none.
 *
 * One connection serves all sessions of a process. If two gateways start a gate at the same time, one gate stays: the
 * other sees its lock and exits.
 */

import { spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import https from "node:https";
import net from "node:net";
import path from "node:path";

import { socketPath, stamp, stateFolder } from "./machine.js";
import { environment, NEUTRAL, stranger } from "./start.js";

/** Maximum length in bytes of an answer. */
const MAX_ANSWER = 64_000_000;
/** Milliseconds that a gate may take to start, and milliseconds until the next attempt after a failed start. */
export const START = 15_000;
const COOL_DOWN = 5_000;
/** Milliseconds that the first answer of a newly started gate may take. */
const FIRST = 5_000;
/** Number of times that a request is repeated if its connection was cut, since any idle connection may be. */
const MOST_CUTS = 5;
const POLL = 20;
/** Milliseconds for which urgent requests do not ask a gate that did not answer in time, as in hooks. */
const HUNG = 5_000;
/** Seconds without requests after which the gate of a machine exits. */
const IDLE = 600;
/** Error codes of a connection that certainly reached nobody. */
const UNSENT = new Set(["ECONNREFUSED", "ENOENT", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "ENOTSOCK"]);
const CUT = new Set(["ECONNRESET", "EPIPE", "ECONNABORTED"]);
/** Requests that say how long this client waits: a later decision would open an action that nobody reports. */
const EXPIRES = new Set(["/intercept", "/lock"]);
/** Fields that a gate of another version may not know and that a request can do without. */
const OPTIONAL = new Set("deadline timeoutMs meta commits summary purpose worktree rewrite after dispatch taskId attempt timeout host".split(" "));

/**
 * The gate is unreachable. `unsent`: certainly no attempt had an effect. `cut`: the connection was cut. `late`: the
 * gate did not answer in time.
 */
export class Away extends Error {
    constructor(message, { unsent = false, cut = false, late = false } = {}) {
        super(message);
        this.late = late;
        this.unsent = unsent;
        this.cut = cut;
    }
}

/** The gate rejected a request. `status` is the HTTP status, `at` the field at fault. */
export class Refused extends Error {
    constructor(message, status, at) {
        super(at ? `${at}: ${message}` : message);
        this.status = status;
        this.at = at;
    }
}

export class Gate {
    #settings;
    #target;
    #http;
    #starting = null;
    #coolUntil = 0;
    #hungUntil = 0;
    #unknown = new Set(); // optional fields that the gate rejected

    constructor(settings, log = () => {}) {
        this.#settings = settings;
        this.log = log;
        if (settings.mode === "local") {
            this.state = stateFolder(settings.state);
            this.socket = socketPath(this.state);
            this.#http = http;
            this.#target = { socketPath: this.socket, prefix: "", headers: { host: "localhost" } };
        } else {
            const url = new URL(settings.url);
            this.#http = url.protocol === "https:" ? https : http;
            const headers = settings.token === undefined ? {} : { authorization: `Bearer ${settings.token}` };
            const port = url.port || (url.protocol === "https:" ? 443 : 80);
            this.#target = {
                host: url.hostname.replace(/^\[|\]$/g, ""),
                port,
                prefix: url.pathname.replace(/\/+$/, ""),
                headers,
            };
        }
        this.#target.agent = new this.#http.Agent({ keepAlive: true, maxSockets: 64, scheduling: "lifo" });
        if (settings.mode === "local") {
            this.#target.agent.createConnection = (options, done) => this.#connect(options, done);
        }
    }

    /** Connect to the gate of this machine, and to no other process that listens there. */
    #connect(options, done) {
        const why = stranger(this.socket, this.#settings.command);
        if (why === "") return net.createConnection(options, done);
        const refused = new net.Socket();
        process.nextTick(() => refused.destroy(new Error(why)));
        return refused;
    }

    /** Return where the gate is, for people. */
    get address() {
        return this.#settings.mode === "local" ? `unix:${this.socket}` : this.#settings.url;
    }

    /**
     * Return the JSON of the answer.
     *
     * `deadline` is in milliseconds and covers repeats after a cut connection, so repeated requests must be harmless.
     * `patience` is how many more milliseconds a local gate may take to start if there is none.
     *
     * A request without a `deadline` cannot wait: it is a call, or the start of a turn. For five seconds after the gate
     * did not answer such a request in time, or until it answers another request, the gate is not asked.
     *
     * Throws `Away`, or `Refused` for a 4xx status.
     */
    async ask(method, target, body, { deadline, patience = 0 } = {}) {
        if (deadline !== undefined) return this.#repeated(method, target, body, deadline, patience);
        if (performance.now() < this.#hungUntil) throw new Away("it did not answer in time a moment ago");
        try {
            return await this.#repeated(method, target, body, this.#settings.deadline, patience);
        } catch (error) {
            if (error instanceof Away && error.late) this.#hungUntil = performance.now() + HUNG;
            throw error;
        }
    }

    async #repeated(method, target, body, deadline, patience) {
        let ends = performance.now() + deadline;
        let started = false;
        let dropped = false;
        let asked = false;
        for (let cuts = 0; ;) {
            try {
                const left = Math.max(1, ends - performance.now());
                const sent = EXPIRES.has(target) ? { ...body, ...stamp(left) } : body;
                const text = sent === undefined ? undefined : JSON.stringify(this.#known(sent));
                const answer = await this.#once(method, target, text, left);
                this.#hungUntil = 0;
                return answer;
            } catch (error) {
                if (!dropped && this.#drops(error)) {
                    dropped = true;
                    continue;
                }
                if (!(error instanceof Away)) throw error;
                const { unsent } = error;
                asked ||= !unsent;
                error.unsent = !asked;
                if (performance.now() > ends) throw error;
                if (unsent && this.#settings.mode === "local" && !started) {
                    started = true;
                    const begun = this.start();
                    if (!patience || !(await within(begun, patience))) throw error;
                    ends = performance.now() + Math.max(deadline, FIRST);
                } else if (!error.cut || ++cuts > MOST_CUTS) {
                    throw error;
                }
            }
        }
    }

    /** Return the body without the fields that the gate rejected. */
    #known(body) {
        if (this.#unknown.size === 0) return body;
        return Object.fromEntries(Object.entries(body).filter(([name]) => !this.#unknown.has(name)));
    }

    /** Return whether the gate, of another version, rejected a field that the request can do without. */
    #drops(error) {
        if (!(error instanceof Refused) || error.status !== 400 || !OPTIONAL.has(error.at)) return false;
        if (!error.message.includes("unknown field")) return false;
        this.#unknown.add(error.at);
        return true;
    }

    /** Forward one request unchanged and return `{status, headers, body}`. Throws `Away`. */
    async pass(method, target, text, milliseconds) {
        return this.#exchange(method, target, text, milliseconds);
    }

    async #once(method, target, text, milliseconds) {
        const { status, body } = await this.#exchange(method, target, text, milliseconds);
        let answer;
        try {
            answer = JSON.parse(body);
        } catch {
            throw new Away(`status ${status}, and no JSON`);
        }
        if (status >= 200 && status < 300) return answer;
        const said = typeof answer?.error === "string" ? answer.error : `status ${status}`;
        if (status >= 400 && status < 500 && status !== 408 && status !== 429) {
            throw new Refused(said, status, typeof answer?.at === "string" ? answer.at : "");
        }
        throw new Away(`status ${status}, ${said}`);
    }

    #exchange(method, target, text, milliseconds) {
        const { prefix, headers, ...place } = this.#target;
        return new Promise((resolve, reject) => {
            const sent = { accept: "application/json", ...headers };
            if (text !== undefined) {
                sent["content-type"] = "application/json";
                sent["content-length"] = Buffer.byteLength(text);
            }
            const request = this.#http.request({ ...place, method, path: prefix + target, headers: sent });
            const fail = (error) => {
                clearTimeout(timer);
                reject(error);
                request.destroy();
            };
            const timer = setTimeout(() => fail(new Away("no answer in time", { late: true })), milliseconds);
            request.on("error", (error) => {
                // An idle connection, or one to a gate that is exiting, says nothing about the next one.
                fail(
                    new Away(error.code ?? error.message, { unsent: UNSENT.has(error.code), cut: CUT.has(error.code) }),
                );
            });
            request.on("response", (response) => {
                const pieces = [];
                let size = 0;
                response.on("data", (piece) => {
                    size += piece.length;
                    if (size > MAX_ANSWER) fail(new Away("its answer does not end"));
                    else pieces.push(piece);
                });
                response.on("error", (error) => fail(new Away(error.code ?? error.message)));
                response.on("aborted", () => fail(new Away("its answer was cut")));
                response.on("end", () => {
                    clearTimeout(timer);
                    resolve({
                        status: response.statusCode,
                        headers: response.headers,
                        body: Buffer.concat(pieces).toString(),
                    });
                });
            });
            request.end(text);
        });
    }

    // --- The gate of this machine -------------------------------------------------------------------

    /** Start the gate of this machine unless it runs. Return true once it listens, false if it does not start. */
    start() {
        if (this.#settings.mode !== "local") return Promise.resolve(false);
        if (performance.now() < this.#coolUntil) return Promise.resolve(false);
        this.#starting ??= this.#bringUp()
            .catch((error) => {
                this.log(`the gate could not be started: ${error.message}`);
                return false;
            })
            .then((up) => {
                this.#starting = null;
                if (!up) this.#coolUntil = performance.now() + COOL_DOWN;
                return up;
            });
        return this.#starting;
    }

    async #bringUp() {
        if (await listens(this.socket)) return true;
        fs.mkdirSync(this.state, { recursive: true, mode: 0o700 });
        const { O_APPEND, O_CREAT, O_NOFOLLOW, O_WRONLY } = fs.constants;
        const log = fs.openSync(path.join(this.state, "server.log"), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0o600);
        const [program, ...words] = this.#settings.command;
        const serve = ["serve", "--recorded", "--state", this.state, "--socket", this.socket, "--idle", String(IDLE)];
        let ended;
        const child = spawn(program, [...words, ...serve], {
            cwd: NEUTRAL,
            env: environment(),
            detached: true,
            stdio: ["ignore", log, log],
        });
        fs.closeSync(log);
        child.on("error", (error) => (ended = error.message));
        child.on(
            "exit",
            (code, signal) => (ended = `it ended with ${code ?? signal}: see ${path.join(this.state, "server.log")}`),
        );
        child.unref();
        const until = performance.now() + START;
        // A gate that exits with 1 was not the first: the first one is about to listen.
        for (;;) {
            if (await listens(this.socket)) return true;
            if (performance.now() > until || (ended !== undefined && child.exitCode !== 1)) break;
            await pause(POLL);
        }
        this.log(`the gate did not start: ${ended ?? "it does not listen yet"}`);
        return false;
    }
}

/** Return whether something accepts connections there. */
export function listens(socket) {
    return new Promise((resolve) => {
        const tried = net.connect(socket);
        const done = (answer) => {
            tried.destroy();
            resolve(answer);
        };
        tried.setTimeout(1000, () => done(false));
        tried.on("connect", () => done(true));
        tried.on("error", () => done(false));
    });
}

function pause(milliseconds) {
    return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Return the value of a promise, or false if it takes longer. */
async function within(promise, milliseconds) {
    let timer;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, milliseconds, false)));
    try {
        return await Promise.race([promise, late]);
    } finally {
        clearTimeout(timer);
    }
}
