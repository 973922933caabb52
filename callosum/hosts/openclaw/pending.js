/**
 * Keep what the gate could not be told in time: calls that ran without it, reports, calls that were given up.
 *
 * With a gate on this machine the records go to the spool, which outlives this process. Otherwise, and if the spool is
 * full, they stay in memory and are sent before the next call is decided.
 */

import { randomUUID } from "node:crypto";

import { Away } from "./gate.js";
import { append, summaryOf } from "./spool.js";

const MOST = 1000;
const PAGE = 200;
/** Maximum length, in characters of JSON, of a call that is kept in full. A longer one is kept without its params. */
const LONGEST = 100_000;
/** Highest tier of a call that the gate may classify from its summary. */
const SUMMARISED = 2;
/** Fields of a call that only its decision needs. */
const ASKING = ["pause", "wait", "schema", "host", "after", "rewrite", "deadline", "timeoutMs", "summary", "purpose"];

const now = () => Date.now() / 1000;

export class PendingRecords {
    #state;
    #records = [];
    #sending = null;

    /** `state` is the folder of the gate on this machine, or `undefined` if the gate is on another machine. */
    constructor(state) {
        this.#state = state;
    }

    /** Return the number of records in memory. */
    get size() {
        return this.#records.length;
    }

    /** Keep a call that runs without the gate, which refused to judge it if there is a `why`. Pass the return value to `report`. */
    add(call, tier = Infinity, why = undefined) {
        const kept = Object.fromEntries(Object.entries(call).filter(([name]) => !ASKING.includes(name)));
        kept.callId ??= `late-${randomUUID()}`;
        const { instance, session, namespace, callId } = kept;
        const item = { who: { instance, session, namespace, callId }, record: undefined };
        const begun = { kind: "call", running: true, outcome: "done", started: now(), ...(why && { why }) };
        const params = tier <= SUMMARISED ? summaryOf(kept.params) : undefined;
        if (params !== undefined && this.#spooled({ ...begun, v: 1, call: { ...kept, params } })) return item;
        const whole = JSON.stringify(kept).length <= LONGEST;
        item.record = { ...begun, v: whole ? 2 : 1, call: whole ? kept : { ...kept, params: {} } };
        this.#remember(item.record);
        return item;
    }

    /** Keep the outcome of such a call. */
    report({ who, record }, outcome) {
        if (record !== undefined && this.#records.includes(record) && this.#sending === null) {
            delete record.running;
            Object.assign(record, { outcome, ended: now() });
            return;
        }
        this.#keep({ kind: "report", v: 2, call: { ...who, tool: "?" }, outcome, ended: now() });
    }

    /** Keep the body of a report that did not reach the gate. */
    owe({ instance, session, namespace, id, outcome, result }) {
        const call = { instance, session, namespace, tool: "?" };
        this.#keep({ kind: "report", v: 2, call, id, outcome: outcome ?? outcomeOf(result), ended: now() });
    }

    /** Keep that a call was given up before the gate answered, and does not run. */
    giveUp({ instance, session, namespace, callId }) {
        if (callId === undefined) return;
        const call = { instance, session, namespace, callId, tool: "?" };
        this.#keep({ kind: "cancel", v: 2, call, outcome: "cancelled", ended: now() });
    }

    /** Send the records in memory. Return how many were accepted. Joins a transmission that is already running. */
    async send(gate, deadline = 10_000) {
        if (!this.#records.length) return 0;
        this.#sending ??= this.#send(gate, deadline).finally(() => (this.#sending = null));
        return this.#sending;
    }

    #keep(record) {
        if (!this.#spooled(record)) this.#remember(record);
    }

    #spooled(record) {
        return this.#state !== undefined && append(this.#state, record);
    }

    #remember(record) {
        this.#records.push(record);
        if (this.#records.length > MOST) this.#records.shift();
    }

    async #send(gate, deadline) {
        let sent = 0;
        try {
            while (this.#records.length) sent += await this.#page(gate, this.#records.slice(0, PAGE), deadline);
        } catch (error) {
            if (!(error instanceof Away)) throw error;
        }
        return sent;
    }

    /** Send the records of a rejected page one by one, and give up those that the gate rejects again. */
    async #page(gate, page, deadline) {
        try {
            await gate.ask("POST", "/late", { now: now(), calls: page }, { deadline });
        } catch (error) {
            if (error instanceof Away) throw error;
            if (page.length > 1) {
                let sent = 0;
                for (const record of page) sent += await this.#page(gate, [record], deadline);
                return sent;
            }
            gate.log(`a call that ran without the gate is not journalled: ${error.message}`);
            this.#drop(page);
            return 0;
        }
        this.#drop(page);
        return page.length;
    }

    #drop(page) {
        const gone = new Set(page);
        this.#records = this.#records.filter((record) => !gone.has(record));
    }
}

/** Return what the gate concludes from the text of an error. */
const LOST = /time(?:d[ _-]?|[ _-]?)out|deadline[ _]exceeded|connection (?:was |has been )?(?:reset|lost|closed|aborted)/i;
const CUT = /econn(?:reset|aborted)|epipe|broken pipe|socket hang up/i;

function outcomeOf(result) {
    const said = typeof result?.error === "string" ? result.error.slice(0, 1000) : "";
    if (!result?.error) return "done";
    return LOST.test(said) || CUT.test(said) ? "unknown" : "failed";
}
