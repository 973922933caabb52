/**
 * The client of a Callosum gate: asks the gate before a tool call runs, and reports how the call ended.
 *
 *     const gate = new CallosumClient({ instance: "mira", session: "chat" });
 *     await gate.guard({ tool: "send_email", params }, () => send(params));
 *
 * Runs in Node 20+ and in browsers, without dependencies. callosum.d.ts holds the types and describes each method.
 *
 * If the gate is unreachable, a client decides by itself within its deadline: a tool whose highest tier is 0 to 2 runs
 * and is journalled once the gate is back; a tool of a higher tier does not run.
 */

const URL_OF_GATE = "http://127.0.0.1:7700";
const DEADLINE = 1000;
/** Milliseconds between two attempts. */
const FIRST_PAUSE = 25;
const LAST_PAUSE = 250;
/** Mean pause in milliseconds before an overloaded gate is asked again: clients that return at once overload it. */
const BUSY_PAUSE = 600;
/** Milliseconds of the deadline that must then be left: an attempt that is too late for an answer only adds load. */
const BUSY_ROOM = 400;
/** Maximum `wait`, in seconds, and maximum sizes, in bytes. All but that of an answer are the gate's limits. */
const MAX_WAIT = 60;
const MAX_REQUEST = 5_000_000;
const MAX_ANSWER = 64_000_000;
/** Maximum time that a request may say its client waits, in milliseconds. */
const MAX_TIMEOUT = 86_400_000;
/** Maximum size of a result that a guard reports, in characters of JSON; the journal keeps only a summary. */
const MAX_RESULT = 1_000_000;
/** Highest tier that runs without the gate, and the tier of an unknown tool. */
const HIGHEST_WITHOUT_GATE = 2;
const UNKNOWN_TOOL = 3;
/** The table of tiers before the gate has sent one: read-only tools of the hosts. The Python client has the same. */
const READS = new Map(
    `BashOutput Glob Grep LS NotebookRead Read TaskOutput TodoRead WebFetch WebSearch agents_list find glob
    google_web_search grep list_directory ls memory_get memory_search read read_file search_file_content session_status
    sessions_history sessions_list tool_describe tool_search web_fetch web_search`
        .split(/\s+/)
        .map((tool) => [tool, 0]),
);
/** Maximum number of calls that ran without the gate and are kept, and their maximum size in characters of JSON. */
const MAX_LATE = 1000;
const MAX_LATE_SIZE = 32_000_000;
/** Milliseconds between two attempts to send the records that the gate does not have yet. */
const LATE_EVERY = 1000;
/** Seconds that a request with such records may take longer than others, because nobody waits for it. */
const LATE_TIME = 10;
/** Maximum length of a lease, in seconds, of which a third passes before it is renewed. */
const LEASE = 300;
/** Milliseconds for event streams: pauses before reconnecting, and the silence after which a stream is reconnected. */
const FIRST_RECONNECT = 250;
const LAST_RECONNECT = 10_000;
const SILENCE = 90_000;
/** Maximum size of one event, in characters. */
const MAX_EVENT = 16_000_000;

/** Base of all errors of this client. `status` is the gate's (0: no response), `at` the field at fault. */
export class CallosumError extends Error {
    constructor(message, { status = 0, at = "", cause } = {}) {
        super(at ? `${at}: ${message}` : message, cause === undefined ? undefined : { cause });
        this.name = "CallosumError";
        this.status = status;
        this.at = at;
    }
}

/**
 * The gate is unreachable, and this may not be done without it. `tier` and `callId` are those of the call, if any.
 * `id` names a decision that may be in force although it could not be confirmed: it may be cancelled.
 */
export class GateUnavailable extends CallosumError {
    constructor(message, { status, at, tier = null, callId = null, id = null, cause } = {}) {
        super(message, { status, cause });
        this.at = at ?? "";
        this.name = "GateUnavailable";
        this.tier = tier;
        this.callId = callId;
        this.id = id;
    }
}

/** A guarded call may not run now. `message` is the sentence for the agent, `decision` the whole decision. */
export class Blocked extends CallosumError {
    constructor(decision) {
        super(decision.warning ?? `[Callosum] ${decision.verdict}`);
        this.name = "Blocked";
        this.decision = decision;
        this.retryable = decision.retryable ?? false;
        this.retryAfter = decision.retryAfter ?? null;
    }
}

/**
 * An attempt that failed. `unsent`: it certainly had no effect, so that any request may be repeated. `store`: the gate
 * answers, but it cannot decide. `busy`: the gate is overloaded. `weight`: how much the failure says.
 */
class Failure extends Error {
    constructor(message, { cause, unsent = false, store = false, busy = false, id = null } = {}) {
        super(message, { cause });
        this.unsent = unsent;
        this.store = store;
        this.busy = busy;
        this.id = id;
        this.weight = id !== null ? 3 : store ? 2 : message === NO_TIME ? 0 : 1;
    }
}

const NO_TIME = "no answer in time";

/** Fields that a gate may not support, and that a request can do without. */
const OPTIONAL = new Set("deadline timeoutMs meta commits summary purpose worktree rewrite after dispatch taskId attempt timeout host".split(" "));
/** Optional fields that are sent only to a gate that lists them. */
const NEWER = ["meta", "commits", "summary", "purpose"];

/** Codes of errors with which a request certainly reached no gate. */
const UNASKED = new WeakSet();

export class CallosumClient {
    #base;
    #who;
    #headers;
    #deadline;
    #fetch;
    #table; // tool -> highest tier; null until it is fetched
    #late = new Backlog();
    #actors = new WeakMap(); // decision -> the actor that asked for it
    #sending = null; // the promise of a transmission of kept records
    #carrying = null; // the timer of the next attempt to send them
    #unknown = new Set(); // optional fields that the gate refused
    #fields = null; // a promise of the fields that the gate lists
    #chores = null; // background work: fetching the table, sending kept records

    constructor(options = {}, instance = undefined) {
        const given = typeof options === "string" || options instanceof URL ? { url: options, instance } : options;
        this.#base = baseOf(given.url ?? URL_OF_GATE);
        this.#who = defined({ instance: given.instance, session: given.session, namespace: given.namespace });
        this.#headers = headersOf(given.token);
        this.#deadline = given.deadline ?? DEADLINE;
        if (!(Number.isFinite(this.#deadline) && this.#deadline > 0)) {
            throw new TypeError(`deadline: expected milliseconds above 0, got ${this.#deadline}`);
        }
        this.#fetch = given.fetch ?? globalThis.fetch;
        this.#table = given.fallback === undefined ? null : tableOf(given.fallback);
    }

    // --- Decisions ----------------------------------------------------------------------------

    async intercept(call, { signal } = {}) {
        const asked = this.#asked(call);
        for (const field of NEWER) {
            if (asked[field] !== undefined && !(await this.#lists(field))) delete asked[field];
        }
        const wait = asked.wait ?? 0;
        const body = (left) => {
            // A repeated request waits only for the time that is left.
            const rest = wait ? { wait: between(0, Math.ceil(left - this.#deadline) / 1000, wait) } : {};
            return { ...asked, ...rest, ...stamp(left) };
        };
        let decision;
        try {
            const from = performance.now();
            await this.#tell(signal);
            decision = await this.#request("POST", "/intercept", { body, shape: isDecision, wait, signal, from });
            decision = { contextKeys: [], rule: "", ...decision, callId: asked.callId };
        } catch (error) {
            if (refuses(error) && tierOf(asked.tool, asked.params, this.#table) === 0) {
                return this.#withoutGate(asked, error);
            }
            if (!(error instanceof GateUnavailable) || error.at === STORE) throw error;
            try {
                decision = this.#withoutGate(asked, error);
            } catch (held) {
                if (!UNASKED.has(error)) this.#keep("cancel", asked, { outcome: "cancelled" });
                throw held;
            }
        }
        this.#actors.set(decision, whoOf(asked));
        return decision;
    }

    #asked(call) {
        const fresh = newId();
        const asked = { dispatch: fresh, ...this.#who, ...defined(call), callId: call.callId ?? fresh };
        named(asked.instance, "instance");
        named(asked.tool, "tool");
        if (asked.wait !== undefined && !(Number.isFinite(asked.wait) && asked.wait >= 0 && asked.wait <= MAX_WAIT)) {
            throw new CallosumError(`expected 0 to ${MAX_WAIT} seconds, got ${asked.wait}`, { at: "wait" });
        }
        return asked;
    }

    #withoutGate(asked, away) {
        const { tool, callId, params } = asked;
        const tier = tierOf(tool, params, this.#table);
        if (tier > HIGHEST_WITHOUT_GATE) {
            const why = `"${tool.slice(0, 100)}" counts as tier ${tier} and does not run without it`;
            throw new GateUnavailable(`${away.message}; ${why}`, { tier, callId, cause: away.cause });
        }
        const { dispatch, ...kept } = asked;
        this.#late.add(kept, refuses(away) ? away.message : undefined);
        this.#carry();
        const answer = { proceed: true, tier, contextKey: null, id: 0, verdict: "allow" };
        return { ...answer, contextKeys: [], rule: "", fallback: true, callId };
    }

    async guard(call, run, { signal, warned, pause = true, confirm = 0 } = {}) {
        if (typeof run !== "function") throw new TypeError("guard() needs a function to run");
        const session = call.session || this.#who.session || ownSession();
        const said = { pause: call.pause || pause, after: call.after ?? confirm };
        const decision = await this.intercept({ ...call, ...said, session }, { signal });
        if (!decision.proceed) throw new Blocked(decision);
        if (decision.warning) await this.#warn(call, decision, warned);
        const stop = this.#renewing(decision);
        let result;
        try {
            result = await run(decision);
        } catch (error) {
            stop();
            await this.#report(decision, { error: described(error) }, outcomeOf(error));
            throw error;
        }
        stop();
        await this.#report(decision, reportable(result), "done");
        return result;
    }

    /** Pass a warning to `warned`, or to `console.warn`. An exception of `warned` keeps the call from running. */
    async #warn(call, decision, warned) {
        if (warned === undefined) {
            console.warn(`[callosum] ${call.tool} runs with a warning: ${decision.warning}`);
            return;
        }
        try {
            await warned(decision);
        } catch (error) {
            await this.#report(decision, undefined, "cancelled");
            throw error;
        }
    }

    /** Renew the lease of `decision` after each third of its duration. Return a function that stops this. */
    #renewing(decision) {
        if (!decision.lease) return () => {};
        const over = new AbortController();
        const { signal } = over;
        const every = (timeOf(decision.lease) * 1000) / 3;
        let timer;
        const next = () => {
            timer = setTimeout(async () => {
                try {
                    const report = await this.renew(decision.id, { ...this.#actors.get(decision), signal });
                    if (!report.ok) return;
                } catch (error) {
                    if (!(error instanceof GateUnavailable)) return;
                }
                if (!signal.aborted) next();
            }, every);
            timer.unref?.(); // in Node a lease must not keep the process alive
        };
        next();
        return () => {
            clearTimeout(timer);
            over.abort();
        };
    }

    /** Report without failing the tool, which has run: an action without a report becomes `unknown`, which is safe. */
    async #report(decision, result, outcome) {
        try {
            await this.complete(decision, result, { outcome });
        } catch (error) {
            console.warn(`[callosum] how ${decision.callId} ended could not be reported: ${error.message}`);
        }
    }

    async complete(what, result, { outcome, signal, ...who } = {}) {
        if (outcome !== undefined && !OUTCOMES.has(outcome)) {
            throw new CallosumError(`expected one of ${[...OUTCOMES].join(", ")}, got ${outcome}`, { at: "outcome" });
        }
        const actor = this.#actor(who, what);
        if (what?.fallback || what?.id === 0) {
            const call = what.callId ? this.#late.ofId(what.callId) : this.#late.only(actor);
            return reportOf(call, result, outcome);
        }
        const body = { ...actor, ...placeOf(what ?? {}), ...defined({ result, outcome }) };
        const call = body.tool === undefined ? undefined : this.#late.alike(body);
        if (call !== undefined) return reportOf(call, result, outcome);
        // A repeated report by key or by tool would close the next open action.
        const repeatable = body.id !== undefined;
        try {
            return await this.#request("POST", "/complete", { body, shape: isReport, repeatable, signal });
        } catch (error) {
            if (error instanceof GateUnavailable) {
                const said = reportOf({}, result, outcome).state;
                this.#keep("report", body, { id: body.id, outcome: said });
                error.message += "; the report is kept, and is sent once the gate is back";
            }
            throw error;
        }
    }

    // --- Leases -------------------------------------------------------------------------------

    async lock(contextKey, { tier = 3, ttl, signal, ...who } = {}) {
        const asked = { ...this.#actor(who), contextKey, tier, ...defined({ ttl }) };
        const body = (left) => ({ ...asked, ...stamp(left) });
        return this.#request("POST", "/lock", { body, shape: isLockResult, signal });
    }

    async release(contextKey, { force, by, signal, ...who } = {}) {
        const query = { ...this.#actor(who), force: force || null, by };
        return this.#request("DELETE", `/lock/${segment(contextKey)}`, {
            query,
            shape: isReport,
            repeatable: false, // the first request frees the locks, a second would free the calls
            signal,
        });
    }

    async renew(id, { ttl, signal, ...who } = {}) {
        const body = { ...this.#actor(who), id, ...defined({ ttl }) };
        return this.#request("POST", "/renew", { body, shape: isReport, signal });
    }

    // --- People -------------------------------------------------------------------------------

    async resolve(id, { happened, by, note, namespace, signal } = {}) {
        const body = { ...this.#space(namespace), id, happened, ...defined({ by, note }) };
        return this.#request("POST", "/resolve", { body, shape: isReport, repeatable: false, signal });
    }

    async approvals({ namespace, session, signal } = {}) {
        const query = { ...this.#space(namespace), ...defined({ session }) };
        return this.#request("GET", "/approvals", { query, shape: isApprovals, signal });
    }

    async approve(id, options = {}) {
        return this.#answer(id, true, options);
    }

    async deny(id, options = {}) {
        return this.#answer(id, false, options);
    }

    #answer(id, approve, { by, channel, note, namespace, signal }) {
        const body = { ...this.#space(namespace), approve, ...defined({ by, channel, note }) };
        const path = `/approvals/${segment(String(id))}`;
        return this.#request("POST", path, { body, shape: isReport, repeatable: false, signal });
    }

    // --- Reading ------------------------------------------------------------------------------

    async status(contextKey = undefined, { namespace, signal } = {}) {
        const query = { ...this.#space(namespace), contextKey };
        return this.#request("GET", "/status", { query, shape: isStatus, signal });
    }

    async brief({ keys, cwd, budget, signal, ...who } = {}) {
        const query = { ...this.#actor(who), key: keys, cwd, budget };
        return this.#request("GET", "/brief", { query, shape: isBrief, signal });
    }

    async journal({ cursor, limit, session, contextKey, newest, wait = 0, namespace, signal } = {}) {
        const page = { cursor, limit, session, contextKey, newest: newest || null, wait: wait || null };
        const query = { ...this.#space(namespace), ...page };
        return this.#request("GET", "/journal", { query, shape: isJournalPage, wait, signal });
    }

    async *events({ types, lastEventId, namespace, signal } = {}) {
        const query = { ...this.#space(namespace), types: types?.join(",") };
        let last = lastEventId ?? "";
        let first = FIRST_RECONNECT;
        let pause = first;
        while (!signal?.aborted) {
            const cancel = new AbortController();
            const unlink = linked(signal, () => cancel.abort());
            const alive = watchdog(SILENCE, () => cancel.abort());
            try {
                const body = await this.#stream(query, last, cancel.signal);
                if (body === null) return;
                for await (const block of blocksOf(body, cancel.signal, alive)) {
                    if (signal?.aborted) return;
                    if (block.retry !== undefined) first = between(1, block.retry, LAST_RECONNECT);
                    if (block.id !== undefined) last = block.id;
                    pause = first;
                    if (block.data === undefined) continue;
                    alive.stop(); // until the next read: a slow reader does not mean a silent gate
                    yield { id: last, type: block.type, data: jsonOr(block.data) };
                }
            } catch (error) {
                if (!(error instanceof Failure)) throw error;
            } finally {
                alive.stop();
                unlink();
                cancel.abort();
            }
            await sleep(pause * (0.5 + Math.random() / 2), signal).catch(() => {}); // aborted: the loop ends
            pause = between(FIRST_RECONNECT, pause * 2, LAST_RECONNECT);
        }
    }

    async emit(events, { signal } = {}) {
        // Events use one name for the actor.
        const { instance, session, namespace } = this.#who;
        const who = defined({ instance: instance && session ? `${instance}/${session}` : instance, namespace });
        const named = (event) => ({ ...who, ...event });
        const { accepted } = await this.#request("POST", "/events", {
            body: Array.isArray(events) ? events.map(named) : named(events),
            shape: isAccepted,
            repeatable: false,
            signal,
        });
        return accepted;
    }

    // --- While the gate is unreachable --------------------------------------------------------

    async flush() {
        await awake(Promise.resolve(this.#chores));
        return this.#sendLate();
    }

    /** Keep what the gate could not receive: how a call ended, or that it was given up before there was an answer. */
    #keep(kind, { contextKey, params, action, tool, callId, ...more }, told) {
        const call = { ...whoOf(more), tool: tool ?? "?", ...defined({ callId, params, action }) };
        const found = told.id === undefined && tool === undefined && contextKey
            ? { found: { tier: 0, keys: [[contextKey, "write"]] } } : {};
        this.#late.note(call, { kind, v: 2, call, ...defined(told), ...found, ended: Date.now() / 1000 });
        this.#carry();
    }

    /** Send the gate the records it lacks before it decides. If it does not accept them, it decides all the same. */
    async #tell(signal) {
        if (!this.#late.due()) return;
        try {
            await this.#sendLate(this.#deadline / 2, signal);
        } catch (error) {
            if (signal?.aborted) throw error;
            this.#carry();
        }
    }

    /** Try repeatedly while records are kept, so that the gate gets them soon after it is back. */
    #carry() {
        if (this.#carrying !== null) return;
        this.#carrying = setTimeout(async () => {
            await this.#sendLate(this.#deadline, undefined, true).catch(() => {});
            this.#carrying = null;
            if (this.#late.due()) this.#carry();
        }, LATE_EVERY);
        this.#carrying.unref?.(); // in Node this must not keep the process alive
    }

    /** After each success, do pending work beside the calls, which need not wait for it. */
    #reached() {
        if (this.#chores !== null || (this.#table !== null && !this.#late.due())) return;
        const chores = async () => {
            if (this.#table === null) await this.#fetchTable();
            await this.#sendLate(this.#deadline, undefined, true);
        };
        this.#chores = chores()
            .catch(() => this.#late.due() && this.#carry()) // the gate is unreachable again
            .finally(() => {
                this.#chores = null;
            });
    }

    async #fetchTable() {
        try {
            const { tools } = await this.#request("GET", "/fallback", { shape: isTable, repeatable: false });
            this.#table = tableOf(tools);
        } catch (error) {
            // A gate without a table will not have one a moment later.
            if (!(error instanceof GateUnavailable)) this.#table = new Map();
        }
    }

    /**
     * Send the records that the gate does not have yet. Return how many were accepted; join a transmission in progress.
     *
     * In Node, a transmission in the `background` does not keep the process alive between its attempts.
     */
    async #sendLate(within, signal, background = false) {
        this.#sending ??= this.#sendAll(within, signal, background).finally(() => {
            this.#sending = null;
        });
        return background ? this.#sending : awake(this.#sending);
    }

    async #sendAll(within, signal, background) {
        let sent = 0;
        for (let batch = this.#late.batch(); batch.length; batch = this.#late.batch()) {
            sent += await this.#sendBatch(batch, within, signal, background);
        }
        return sent;
    }

    /** Give up calls that the gate cannot read: they would block all others for ever. */
    async #sendBatch(batch, within, signal, background) {
        if (batch.length === 0) return 0;
        const text = `{"now":${Date.now() / 1000},"calls":[${batch.map(lateText).join(",")}]}`;
        // Milliseconds that somebody waits for this, if anybody does.
        const wait = within === undefined ? LATE_TIME : (within - this.#deadline) / 1000;
        try {
            const { accepted } = await this.#request("POST", "/late", { text, shape: isAccepted, wait, signal, background });
            this.#late.sent(batch);
            return accepted;
        } catch (error) {
            if (!UNREADABLE.has(error.status)) throw error;
            const one = batch[/^calls\[(\d+)\]/.exec(error.at)?.[1]];
            if (one === undefined && batch.length > 1) {
                const half = batch.length >> 1;
                const first = await this.#sendBatch(batch.slice(0, half), within, signal, background);
                return first + (await this.#sendBatch(batch.slice(half), within, signal, background));
            }
            console.warn(`[callosum] a call that ran without the gate is not journalled: ${error.message}`);
            this.#late.drop([one ?? batch[0]]);
            return this.#sendBatch(
                batch.filter((call) => call !== (one ?? batch[0])),
                within,
                signal,
                background,
            );
        }
    }

    // --- Requests -----------------------------------------------------------------------------

    #actor(who, decision = undefined) {
        const actor = { ...this.#who, ...this.#actors.get(decision), ...defined(whoOf(who)) };
        named(actor.instance, "instance");
        return actor;
    }

    #space(namespace) {
        return defined({ namespace: namespace ?? this.#who.namespace });
    }

    /**
     * Repeat a request until there is a valid answer, or throw `GateUnavailable` when the time is over.
     *
     * An attempt may take the deadline and `wait`. A gate that does not answer is tried again for one
     * deadline; `wait` is for a key that is held, not for an unreachable gate. `body` may be a function
     * of the milliseconds that are left, for a request that says how long its client waits. `from` is the moment
     * from which the deadline counts, if something was done before.
     */
    async #request(method, path, { body, text, query, shape, wait = 0, repeatable = true, signal, from, background }) {
        const url = this.#url(path, query);
        const fixed = typeof body === "function" ? undefined : (text ?? textOf(body));
        let dropped = false;
        let asked = false;
        let said; // the failure that says most: what the gate said of its store outlives a later attempt that was cut
        let since = from ?? performance.now();
        const ends = since + this.#deadline + wait * 1000;
        for (let pause = FIRST_PAUSE; ; pause = Math.min(pause * 2, LAST_PAUSE)) {
            const began = performance.now();
            const sent = fixed ?? textOf(this.#known(body?.(ends - began)));
            try {
                const answer = await this.#attempt(method, url, sent, shape, ends, signal);
                this.#reached();
                return answer;
            } catch (error) {
                if (fixed === undefined && !dropped && this.#drops(error)) {
                    dropped = true;
                    continue;
                }
                if (!(error instanceof Failure)) throw error;
                asked ||= !error.unsent;
                if (said === undefined || error.weight >= said.weight) said = error;
                const now = performance.now();
                if (now - began >= this.#deadline) since = now; // it waited for a key, and was then cut
                const rest = (error.busy ? BUSY_PAUSE : pause) * (0.5 + Math.random() / 2);
                const room = error.busy ? BUSY_ROOM : 0;
                if ((!repeatable && !error.unsent) || now + rest + room >= Math.min(ends, since + this.#deadline)) {
                    const message = `the gate at ${this.#base} cannot be asked: ${said.message}`;
                    const place = said.store ? { status: 503, at: STORE, id: said.id } : {};
                    const away = new GateUnavailable(message, { ...place, cause: said.cause ?? said });
                    if (!asked) UNASKED.add(away);
                    throw away;
                }
                await sleep(rest, signal, background);
            }
        }
    }

    /** Return whether the gate lists the field. It is fetched once, or again if the gate sends none. */
    async #lists(field) {
        const listed = ({ fields }) => new Set(Array.isArray(fields) ? fields : []);
        this.#fields ??= this.#request("GET", "/health", { shape: isObject }).then(listed);
        try {
            return (await this.#fields).has(field);
        } catch {
            this.#fields = null;
            return false;
        }
    }

    /** Return the body without the fields that the gate refused. */
    #known(body) {
        if (this.#unknown.size === 0 || body === undefined) return body;
        return Object.fromEntries(Object.entries(body).filter(([name]) => !this.#unknown.has(name)));
    }

    /** Return whether the gate refused a field that the request can do without; it is not sent any more. */
    #drops(error) {
        if (!(error instanceof CallosumError) || error.status !== 400 || !OPTIONAL.has(error.at)) return false;
        if (!error.message.includes("unknown field")) return false;
        this.#unknown.add(error.at);
        return true;
    }

    /** Make one attempt, which ends in time whatever `fetch` does. */
    async #attempt(method, url, text, shape, ends, signal) {
        signal?.throwIfAborted();
        if (performance.now() >= ends) throw new Failure(NO_TIME, { unsent: true });
        const cancel = new AbortController();
        let unlink = () => {};
        let timer;
        const stopped = new Promise((_, reject) => {
            timer = setTimeout(() => reject(new Failure(NO_TIME)), ends - performance.now());
            unlink = linked(signal, () => reject(signal.reason));
        });
        try {
            return await Promise.race([stopped, this.#exchange(method, url, text, shape, cancel.signal)]);
        } finally {
            clearTimeout(timer);
            unlink();
            cancel.abort(); // frees the connection of an answer that was not read completely
        }
    }

    async #exchange(method, url, text, shape, signal) {
        const response = await this.#send(url, { method, body: text, signal });
        const answer = jsonOr(await textOfAnswer(response), undefined);
        if (response.ok && shape(answer)) return answer;
        throw refusalOf(response.status, answer);
    }

    async #stream(query, last, signal) {
        const url = this.#url("/events", query);
        const headers = { accept: "text/event-stream", ...(last && { "last-event-id": last }) };
        const response = await this.#send(url, { headers, signal });
        if (response.status === 204) return null;
        const type = response.headers.get("content-type") ?? "";
        if (response.ok && response.body && type.startsWith("text/event-stream")) return response.body;
        throw refusalOf(response.status, response.ok ? undefined : jsonOr(await textOfAnswer(response), undefined));
    }

    async #send(url, { method, body, headers, signal }) {
        const send = this.#fetch; // called as a function: a browser's fetch refuses any other `this`
        const type = body === undefined ? {} : { "content-type": "application/json" };
        try {
            return await send(url, {
                method: method ?? "GET",
                headers: { accept: "application/json", ...type, ...this.#headers, ...headers },
                body,
                signal,
                cache: "no-store",
                redirect: "error", // a gate never redirects, and nobody else may get the token
            });
        } catch (error) {
            const code = codesOf(error).find((one) => UNSENT.has(one));
            throw new Failure(reasonOf(error), { cause: error, unsent: code !== undefined });
        }
    }

    #url(path, query = {}) {
        const parts = Object.entries(query).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
        const given = new URLSearchParams(parts.filter(([, value]) => value != null)).toString();
        return `${this.#base}${path}${given && "?"}${given}`;
    }
}

// --- Calls that ran without the gate -----------------------------------------------------------

/** Calls that ran without the gate, oldest first, until they are journalled. New ones displace the oldest. */
class Backlog {
    #calls = [];
    #size = 0;

    add(asked, why) {
        const { wait, ...call } = asked;
        const text = textOf(call);
        const kept = { ...whoOf(call), callId: call.callId, tool: call.tool };
        this.#push({ ...kept, text, outcome: undefined, started: Date.now() / 1000, told: "", why });
    }

    /** Keep a record in the form in which it is sent. */
    note(call, record) {
        this.#push({ ...whoOf(call), text: textOf(record), outcome: record.outcome, told: "", whole: true });
    }

    #push(item) {
        this.#calls.push(item);
        this.#size += item.text.length;
        while (this.#calls.length > MAX_LATE || this.#size > MAX_LATE_SIZE) this.drop(this.#calls.slice(0, 1));
    }

    /** Return the call of a decision, or `undefined` if it is reported already. */
    ofId(callId) {
        return this.#calls.findLast((call) => call.callId === callId && call.outcome === undefined);
    }

    /** Return the only unreported call of an actor. */
    only(actor) {
        const open = this.#calls.filter((call) => call.outcome === undefined && sameActor(call, actor));
        return open.length === 1 ? open[0] : undefined;
    }

    /** Return the oldest unreported call with the same tool and params. */
    alike(place) {
        const open = this.#calls.filter((call) => call.outcome === undefined && call.tool === place.tool);
        const content = open.length ? contentOf(place) : "";
        return open.find((call) => contentOf(JSON.parse(call.text)) === content);
    }

    due() {
        return this.#calls.some(isDue);
    }

    /** Return the oldest calls that can be sent, as many as fit into one request. */
    batch() {
        const found = [];
        let size = 0;
        for (const call of this.#calls) {
            if (!isDue(call)) continue;
            size += 3 * call.text.length + 100; // at most three bytes per character
            if (found.length && size > MAX_REQUEST) break;
            found.push(call);
        }
        return found;
    }

    /** Drop the calls that the gate has accepted. A call without a report stays, so that its report finds it. */
    sent(batch) {
        for (const call of batch) call.told = call.sending;
        this.drop(batch.filter((call) => call.told !== RUNNING));
    }

    drop(calls) {
        const gone = new Set(calls);
        this.#calls = this.#calls.filter((call) => !gone.has(call));
        this.#size = this.#calls.reduce((sum, call) => sum + call.text.length, 0);
    }
}

/** Return the record of a call that ran without the gate: that it is running, or how it ended. */
const RUNNING = "running";
const ENDED = "ended";

function isDue(call) {
    return call.told === "" || (call.told === RUNNING && call.outcome !== undefined);
}

function lateText(call) {
    call.sending = call.outcome === undefined ? RUNNING : ENDED;
    if (call.whole) return call.text;
    const { instance, session, namespace, callId, outcome, started, ended, why } = call;
    if (call.told === RUNNING) {
        const known = defined({ instance, session, namespace, callId, tool: "?" });
        return textOf({ kind: "report", v: 2, call: known, outcome, ended });
    }
    const told = textOf(defined({ outcome: outcome ?? "done", running: outcome === undefined || undefined, started, ended, why }));
    return `{"kind":"call","v":2,"call":${call.text},${told.slice(1)}`;
}

/** Return the outcome that the gate would derive from a report: an error is a failure unless `outcome` says less. */
function reportOf(call, result, outcome) {
    if (call === undefined) return { ok: false, note: "no call without a report ran here while the gate was away" };
    const vague = outcome === "unknown" || outcome === "cancelled";
    call.outcome = isObject(result) && result.error && !vague ? "failed" : (outcome ?? "done");
    call.ended = Date.now() / 1000;
    return { ok: true, state: call.outcome, note: "the gate was away; this is journalled when it is back" };
}

/** Return whether the gate refused the request with a 4xx. */
function refuses(error) {
    return error instanceof CallosumError && !(error instanceof GateUnavailable) && error.status >= 400 && error.status < 500;
}

/** Status codes that refuse the calls, not the client that sends them. */
const UNREADABLE = new Set([400, 413, 422]);

function contentOf({ instance, session, namespace, tool, action, params }) {
    return textOf([instance, session, namespace, tool, action, params ?? {}]);
}

function sameActor(one, other) {
    return ["instance", "session", "namespace"].every((name) => (one[name] ?? null) === (other[name] ?? null));
}

// --- Table of tiers ----------------------------------------------------------------------------

/** Names of tools that run commands, which can do anything whatever a table says. Lower case, without separators. */
const SHELLS = new Set(
    `bash bashexec bashtool cmd cmdexe commandexec exec execbash execcommand execshell executebash executecommand
    executeshell executeshellcommand fish localshell powershell pwsh runbash runcmd runcommand runcommandline
    runinterminal runpowershell runshell runshellcommand runterminal runterminalcmd runterminalcommand sh shell
    shellcommand shellexec shelltool ssh terminal terminalcommand terminalexec zsh`.split(/\s+/),
);

/** Return the highest tier that a call can have; `_tier` among its params can raise it, as at the gate. */
function tierOf(tool, params, table) {
    const last = tool.split(/__|[.:/]/).findLast((part) => part !== "") ?? "";
    const shell = SHELLS.has(last.toLowerCase().replace(/[\s_-]/g, ""));
    const tier = (table ?? READS).get(tool) ?? UNKNOWN_TOOL;
    const said = Math.ceil(Number(params?._tier ?? 0));
    return Math.max(tier, shell ? UNKNOWN_TOOL : 0, said > 0 ? Math.min(said, 4) : 0);
}

function tableOf(tools) {
    const table = new Map(tools instanceof Map ? tools : Object.entries(tools));
    for (const [tool, tier] of table) {
        if (!isTier(tier)) throw new TypeError(`fallback: expected a tier from 0 to 4 for "${tool}", got ${tier}`);
    }
    return table;
}

// --- Validation of answers ---------------------------------------------------------------------

const PROCEEDS = new Map([
    ["allow", true],
    ["warn", true],
    ["confirm", false],
    ["ask", false],
    ["block", false],
]);
const OUTCOMES = new Set(["done", "failed", "cancelled", "unknown"]);

let own;

/** Return the session of this process or page, so that two runs of one program are two actors. */
function ownSession() {
    const { pid } = globalThis.process ?? {};
    own ??= pid ? `pid-${pid}-${Math.round(performance.timeOrigin)}` : `page-${newId().slice(0, 12)}`;
    return own;
}

function isObject(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isTier(value) {
    return Number.isInteger(value) && value >= 0 && value <= 4;
}

/** Check a decision strictly where it lets a tool run: a contradictory answer is no decision. */
function isDecision(value) {
    return (
        isObject(value) &&
        typeof value.proceed === "boolean" &&
        PROCEEDS.get(value.verdict) === value.proceed &&
        isTier(value.tier) &&
        Number.isSafeInteger(value.id) &&
        (value.contextKey === null || typeof value.contextKey === "string") &&
        (value.lease == null || (isObject(value.lease) && Number.isFinite(value.lease.expires)))
    );
}

function isReport(value) {
    return isObject(value) && typeof value.ok === "boolean";
}

function isLockResult(value) {
    return isObject(value) && typeof value.acquired === "boolean";
}

function isStatus(value) {
    return isObject(value) && Array.isArray(value.locks) && Array.isArray(value.recentActions);
}

function isBrief(value) {
    return isObject(value) && typeof value.text === "string" && Array.isArray(value.sections);
}

function isApprovals(value) {
    return isObject(value) && Array.isArray(value.approvals);
}

function isJournalPage(value) {
    return isObject(value) && Array.isArray(value.entries) && typeof value.cursor === "string";
}

function isAccepted(value) {
    return isObject(value) && Number.isInteger(value.accepted);
}

function isTable(value) {
    return isObject(value) && isObject(value.tools) && Object.values(value.tools).every(isTier);
}

/** Status codes with which a gate says that it did nothing, and may do it a moment later. */
const NOT_DONE = new Set([408, 425, 429, 503]);
/** `at` of an error of an overloaded gate. */
const LOAD = "load";
/** `at` of an error of a gate whose store is unreachable: then the client does not decide in its place. */
const STORE = "store";

/** Return the error for an unsuccessful answer: a refusal by the gate, or an answer that is not a gate's. */
function refusalOf(status, answer) {
    const said = isObject(answer) && typeof answer.error === "string" ? answer.error : undefined;
    const at = said !== undefined && typeof answer.at === "string" ? answer.at : "";
    const passing = NOT_DONE.has(status);
    if (said !== undefined && status >= 400 && status < 500 && !passing) return new CallosumError(said, { status, at });
    if (status < 300) return new Failure("its answer makes no sense");
    const store = status === 503 && at === STORE;
    const id = store && Number.isSafeInteger(answer.id) ? answer.id : null;
    const busy = status === 503 && at === LOAD;
    return new Failure(`status ${status}${said ? `, ${said}` : ""}`, { unsent: passing, store, busy, id });
}

/** Return the text of an answer, which must be complete UTF-8. */
async function textOfAnswer(response) {
    try {
        if (!response.body) return await response.text();
        const reader = response.body.getReader();
        const decoder = new TextDecoder("utf-8", { fatal: true });
        let text = "";
        for (let size = 0; size <= MAX_ANSWER;) {
            const { done, value } = await reader.read();
            if (done) return text + decoder.decode();
            size += value.length;
            text += decoder.decode(value, { stream: true });
        }
    } catch (error) {
        throw new Failure(reasonOf(error), { cause: error });
    }
    throw new Failure("its answer does not end");
}

// --- Event stream ------------------------------------------------------------------------------

/**
 * Yield the blocks of a `text/event-stream`: `{type, id?, data?, retry?}`, however it is cut into chunks.
 *
 * A block without data only sets the id and the pause. Text after the last empty line when the
 * stream ends is dropped, as the format requires.
 */
async function* blocksOf(body, signal, alive) {
    const reader = body.getReader();
    const unlink = linked(signal, () => reader.cancel().catch(() => {}));
    const decoder = new TextDecoder(); // removes a byte order mark
    let rest = "";
    let afterReturn = false;
    let block = new Block();
    try {
        for (;;) {
            alive();
            const { done, value } = await reader.read();
            if (done) return;
            let text = decoder.decode(value, { stream: true });
            if (text === "") continue;
            const ends = text.endsWith("\r");
            // A carriage return ends its line at once; a line feed that follows belongs to it.
            if (afterReturn && text.startsWith("\n")) text = text.slice(1);
            afterReturn = ends;
            const lines = (rest + text).split(/\r\n|\r|\n/);
            rest = lines.pop();
            for (const line of lines) {
                if (line !== "") {
                    block.take(line);
                } else {
                    if (!block.empty) yield block.told();
                    block = new Block();
                }
            }
            if (rest.length + block.size > MAX_EVENT) throw new Failure("an event does not end");
        }
    } catch (error) {
        throw error instanceof Failure ? error : new Failure(reasonOf(error), { cause: error });
    } finally {
        unlink();
        reader.cancel().catch(() => {});
    }
}

class Block {
    size = 0;
    #type = "";
    #data = [];
    #id;
    #retry;

    get empty() {
        return this.#data.length === 0 && this.#id === undefined && this.#retry === undefined;
    }

    take(line) {
        const colon = line.indexOf(":");
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
        if (field === "data") {
            this.#data.push(value);
            this.size += value.length + 1;
        } else if (field === "event") {
            this.#type = value;
        } else if (field === "id" && !value.includes("\0")) {
            this.#id = value;
        } else if (field === "retry" && /^\d+$/.test(value)) {
            this.#retry = Number(value);
        } // skips anything else, and comments, whose field name is empty
    }

    told() {
        const data = this.#data.length ? this.#data.join("\n") : undefined;
        return { type: this.#type || "message", data, id: this.#id, retry: this.#retry };
    }
}

/** Call `act` after `silence` milliseconds without a call of the returned function. */
function watchdog(silence, act) {
    let timer = setTimeout(act, silence);
    const alive = () => {
        clearTimeout(timer);
        timer = setTimeout(act, silence);
    };
    alive.stop = () => clearTimeout(timer);
    return alive;
}

// --- Meaning of errors -------------------------------------------------------------------------

const UNSENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);
const LOST_CODE = /ERR_NETWORK|RESET|ABORT|TIMEOUT|TIMEDOUT|EPIPE|UND_ERR_SOCKET|PREMATURE_CLOSE|DISCONNECT/;
const LOST_NAME = /timeout|abort|connection(?:reset|lost|closed)|brokenpipe|disconnect/i;
/** Messages of browsers, and of Node around the real cause, for any request that failed. */
const LOST_TEXT = /^(?:failed to fetch|load failed|fetch failed|network ?error\b.*)$/i;

/**
 * Return how a call ended that threw: `failed` only after a definite refusal.
 *
 * A timeout, an abort or a cut connection leave open whether it happened: `unknown`. A refused
 * connection never reached the other side: `failed`.
 */
function outcomeOf(error) {
    const codes = codesOf(error);
    if (codes.some((code) => UNSENT.has(code))) return "failed";
    const lost =
        codes.some((code) => LOST_CODE.test(code)) ||
        causesOf(error).some((one) => LOST_NAME.test(one.name ?? "") || LOST_NAME.test(one.constructor?.name ?? "")) ||
        (codes.length === 0 && LOST_TEXT.test(error?.message ?? ""));
    return lost ? "unknown" : "failed";
}

function described(error) {
    try {
        return `${error?.name ?? "Error"}: ${error?.message ?? String(error)}`.slice(0, 1000);
    } catch {
        return "Error: something that has no words";
    }
}

function causesOf(error) {
    const found = [];
    for (let one = error; isObject(one) && found.length < 8; one = one.cause) found.push(one);
    return found;
}

function codesOf(error) {
    return causesOf(error)
        .map((one) => one.code)
        .filter((code) => typeof code === "string");
}

function reasonOf(error) {
    const deepest = causesOf(error).at(-1);
    return String(codesOf(error).at(-1) ?? deepest?.message ?? error).slice(0, 200);
}

// --- Building requests -------------------------------------------------------------------------

function baseOf(url) {
    const { protocol, username, password, search, hash, href } = new URL(url);
    if ((protocol !== "http:" && protocol !== "https:") || username || password || search || hash) {
        throw new TypeError("url: expected http:// or https:// and an address, without user, query and fragment");
    }
    return href.replace(/\/+$/, "");
}

function headersOf(token) {
    if (token === undefined || token === null) return {};
    // Checked here: fetch would refuse it at each call, which looks like an unreachable gate.
    if (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token)) {
        throw new TypeError("token: expected visible ASCII characters");
    }
    return { authorization: `Bearer ${token}` };
}

function placeOf({ id, contextKey, tool, params, action }) {
    if (id !== undefined) return { id };
    if (tool !== undefined) return defined({ tool, params, action });
    if (contextKey !== undefined) return { contextKey };
    throw new CallosumError("expected a decision, an id, a contextKey, or a tool and its params", { at: "id" });
}

function whoOf({ instance, session, namespace }) {
    return { instance, session, namespace };
}

function named(value, at) {
    if (typeof value !== "string" || value === "") throw new CallosumError("expected a name", { at });
}

/** Return one segment of a path. Dots alone would be read as a parent folder, even encoded. */
function segment(text) {
    if (typeof text !== "string" || /^\.{0,2}$/.test(text)) {
        throw new CallosumError(`${JSON.stringify(text)} cannot be a part of a path`, { at: "contextKey" });
    }
    return encodeURIComponent(text.replace(LONE, "\ufffd"));
}

const LONE = /\p{Surrogate}/gu;
const LONE_ESCAPED = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g;

/** Return JSON that the gate accepts. Half a surrogate pair, which UTF-8 cannot hold, becomes U+FFFD. */
function textOf(body) {
    if (body === undefined) return undefined;
    let text;
    try {
        text = JSON.stringify(body);
    } catch (error) {
        throw new CallosumError(`cannot be written as JSON: ${error.message}`, { at: "body", cause: error });
    }
    if (text.length > MAX_REQUEST) {
        throw new CallosumError(`longer than ${MAX_REQUEST} bytes as JSON`, { at: "body" });
    }
    return text.includes("\\ud") ? text.replace(LONE_ESCAPED, "$1\ufffd") : text;
}

/** Return what a guard reports of a result: the result itself, unless it is not JSON or is too long. */
function reportable(result) {
    try {
        const length = JSON.stringify(result)?.length;
        if (length === undefined) return undefined; // undefined, a function, a symbol
        if (length <= MAX_RESULT) return result;
        const error = isObject(result) && result.error ? { error: String(result.error).slice(0, 1000) } : {};
        return { ...error, note: `${length} characters of JSON, left out` };
    } catch {
        return { note: "cannot be written as JSON" };
    }
}

/** Return the id of this machine's boot, read once; "" in browsers and if the system does not provide it. */
let bootId;

/**
 * Return the fields that say how long a client waits: `timeoutMs` from the request's arrival, and for a gate of the
 * same machine `deadline`, the boot's id and the moment in seconds since the boot.
 */
function stamp(left) {
    const timeoutMs = between(1, Math.floor(left), MAX_TIMEOUT);
    const builtin = globalThis.process?.getBuiltinModule?.bind(globalThis.process);
    if (bootId === undefined) {
        try {
            bootId = builtin("fs").readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
        } catch {
            bootId = "";
        }
    }
    if (!bootId) return { timeoutMs };
    return { timeoutMs, deadline: `${bootId}:${(builtin("os").uptime() + left / 1000).toFixed(3)}` };
}

// --- Helpers -----------------------------------------------------------------------------------

function newId() {
    // Only pages that were loaded encrypted or from this machine have randomUUID.
    if (crypto.randomUUID) return crypto.randomUUID();
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Return the length of a lease, in seconds. */
function timeOf({ ttl }) {
    return ttl > 0 ? Math.min(ttl, LEASE) : LEASE;
}

function between(least, value, most) {
    return Math.min(Math.max(value, least), most);
}

function defined(fields) {
    return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function jsonOr(text, otherwise = text) {
    try {
        return JSON.parse(text);
    } catch {
        return otherwise;
    }
}

/** Keep the process alive until a promise settles that may wait only for background timers. */
function awake(promise) {
    const timer = setInterval(() => {}, 60_000);
    return promise.finally(() => clearInterval(timer));
}

function sleep(milliseconds, signal, background = false) {
    return new Promise((resolve, reject) => {
        let unlink = () => {};
        const timer = setTimeout(() => {
            unlink();
            resolve();
        }, milliseconds);
        if (background) timer.unref?.();
        unlink = linked(signal, () => {
            clearTimeout(timer);
            reject(signal.reason);
        });
    });
}

/** Call `act` when `signal` is aborted, at once if it already is. Return a function that undoes this. */
function linked(signal, act) {
    if (!signal) return () => {};
    if (signal.aborted) {
        act();
        return () => {};
    }
    signal.addEventListener("abort", act, { once: true });
    return () => signal.removeEventListener("abort", act);
}
