/**
 * The connection to the gate: requests within a deadline, and where there is no gate on this machine, its start.
 *
 * One connection serves all sessions of a process. Of gates that two gateways start at once one stays: the other sees
 * the first one's lock and ends.
 */

import { spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import https from "node:https";
import net from "node:net";
import path from "node:path";

import { socketPath, stamp, stateFolder } from "./place.js";
import { environment, NEUTRAL, stranger } from "./start.js";

/** Longest answer, in bytes. */
const MAX_ANSWER = 64_000_000;
/** How long a gate may take to start, and how long none is started after one that could not, in milliseconds. */
export const START = 15_000;
const COOL_DOWN = 5_000;
/** How long the first answer of a gate that has just started may take, in milliseconds. */
const FIRST = 5_000;
/** How often a request is made again whose connection was cut: each that was kept open may be. */
const MOST_CUTS = 5;
const POLL = 20;
/** How long a gate that did not answer in time is left alone by what cannot wait, in milliseconds: as hooks do it. */
const HUNG = 5_000;
/** After how many seconds without need the gate of a machine ends. */
const IDLE = 600;
/** With these the connection came to nothing for certain: nobody was asked. */
const UNSENT = new Set(["ECONNREFUSED", "ENOENT", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "ENOTSOCK"]);
const CUT = new Set(["ECONNRESET", "EPIPE", "ECONNABORTED"]);
/** Requests that say how long this client waits: decided later, they would open what nobody reports. */
const EXPIRES = new Set(["/intercept", "/lock"]);
/** Fields of a request that a gate of another version may not know, and that the request can do without. */
const OPTIONAL = new Set("deadline timeoutMs meta commits summary purpose worktree rewrite after taskId attempt timeout host".split(" "));

/**
 * The gate is unreachable. `unsent`: nothing came of it for certain, in no attempt; `cut`: the connection was cut;
 * `late`: it did not answer in time.
 */
export class Away extends Error {
    constructor(message, { unsent = false, cut = false, late = false } = {}) {
        super(message);
        this.late = late;
        this.unsent = unsent;
        this.cut = cut;
    }
}

/** The gate does not take what was sent. `status` is HTTP's, `at` the field at fault. */
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
    #unknown = new Set(); // optional fields that the gate refused

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

    /** A connection to the gate of this machine, and to no other process that listens there. */
    #connect(options, done) {
        const why = stranger(this.socket, this.#settings.command);
        if (why === "") return net.createConnection(options, done);
        const refused = new net.Socket();
        process.nextTick(() => refused.destroy(new Error(why)));
        return refused;
    }

    /** Where it is, for people. */
    get address() {
        return this.#settings.mode === "local" ? `unix:${this.socket}` : this.#settings.url;
    }

    /**
     * The JSON of the answer. `deadline` is in milliseconds, and covers repeats where the connection was cut: what is
     * asked must bear that. `patience` is how long more a local gate may take to start, in milliseconds,
     * where there is none.
     *
     * What names no `deadline` cannot wait: a call, or the begin of a turn. For five seconds after the gate did not answer
     * such a request in time, or until it answers another, it is not asked.
     *
     * Throws `Away`, or `Refused` for a 4xx.
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

    /** The body without the fields that the gate refused. */
    #known(body) {
        if (this.#unknown.size === 0) return body;
        return Object.fromEntries(Object.entries(body).filter(([name]) => !this.#unknown.has(name)));
    }

    /** Whether the gate, of another version, refused a field that the request can do without. */
    #drops(error) {
        if (!(error instanceof Refused) || error.status !== 400 || !OPTIONAL.has(error.at)) return false;
        if (!error.message.includes("unknown field")) return false;
        this.#unknown.add(error.at);
        return true;
    }

    /** One request as it is, for what is passed on: `{status, headers, body}`. Throws `Away`. */
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
                // A connection that was kept, or that a gate took which is ending, says nothing of the next one.
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

    // --- the gate of this machine ----------------------------------------------------------------

    /** Starts the gate of this machine unless it runs; true once it listens, false if it does not come up. */
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
        // One that ends with 1 was not the first: then who was first is about to listen.
        for (;;) {
            if (await listens(this.socket)) return true;
            if (performance.now() > until || (ended !== undefined && child.exitCode !== 1)) break;
            await pause(POLL);
        }
        this.log(`the gate did not start: ${ended ?? "it does not listen yet"}`);
        return false;
    }
}

/** Whether somebody takes connections there. */
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

/** The value of a promise, false if it takes longer. */
async function within(promise, milliseconds) {
    let timer;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, milliseconds, false)));
    try {
        return await Promise.race([promise, late]);
    } finally {
        clearTimeout(timer);
    }
}
