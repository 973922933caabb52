/**
 * Share what all sessions of a process have in common: the connection, the known sessions, and the heartbeat.
 *
 * OpenClaw evaluates a plugin's modules twice in one process, and its hooks reach either copy. The shared state is
 * therefore kept on `globalThis`.
 */

import os from "node:os";

import { Calls } from "./calls.js";
import { Deliveries } from "./deliveries.js";
import { Events } from "./events.js";
import { Gate } from "./gate.js";
import { PendingRecords } from "./pending.js";
import { nameOf } from "./names.js";
import { thisProcess } from "./machine.js";
import { tableIn, tableOf } from "./tiers.js";
import { Turns } from "./turns.js";
import { VERSION } from "./version.js";

const SHARED = Symbol.for("callosum.openclaw");
/** Milliseconds between two attempts to send the records in memory, and for which a fetched tier table is valid. */
const CARRY = 1000;
const TABLE_GOOD = 600_000;
/** Milliseconds between two log lines about an unreachable gate. */
const REMIND = 60_000;
const MOST_NOTES = 5;

export class Link {
    #carrying = null;
    #table;
    #fetched = 0;
    #toldAt = -Infinity;
    #timer = null;

    constructor(settings, log) {
        this.settings = settings;
        this.gate = new Gate(settings, log);
        this.process = settings.mode === "local" ? thisProcess() : undefined;
        this.turns = new Turns();
        this.late = new PendingRecords(this.gate.state);
        this.calls = new Calls(this);
        this.deliveries = new Deliveries(this);
        this.events = new Events(this);
        this.who = this.who.bind(this);
        this.notes = new Map();
    }

    /** Return the fields of the wire for a session. */
    who(session) {
        const { instance, namespace } = this.settings;
        return {
            instance: nameOf(instance),
            session: nameOf(session ?? "main"),
            ...(namespace === undefined ? {} : { namespace }),
        };
    }

    // --- While the gate is unreachable, and afterwards ---------------------------------------------

    /** Return the current tier table, or `undefined` if there is none; unknown tools then count as tier 3. */
    table() {
        return (this.gate.state === undefined ? undefined : tableIn(this.gate.state)) ?? this.#table;
    }

    /** Note that the gate did not answer. */
    missed(why) {
        this.#carry();
        const now = Date.now();
        if (now - this.#toldAt < REMIND) return;
        this.#toldAt = now;
        this.gate.log(`the gate at ${this.gate.address} cannot be asked: ${why}`);
    }

    /** Tell the gate what it does not know yet, before it is asked something. Does not throw. */
    async told() {
        if (!this.late.size) return;
        const half = this.settings.deadline / 2;
        await this.late.send(this.gate, half).catch((error) => this.gate.log(String(error)));
        this.#carry();
    }

    /** Try repeatedly while records are in memory, so that the gate gets them soon after its return. */
    #carry() {
        if (this.#carrying !== null || !this.late.size) return;
        this.#carrying = setTimeout(async () => {
            await this.late.send(this.gate, CARRY).catch((error) => this.gate.log(String(error)));
            this.#carrying = null;
            this.#carry();
        }, CARRY);
        this.#carrying.unref?.();
    }

    /** Note that the gate answered, and send the waiting records beside the calls. */
    reached() {
        if (this.late.size) this.late.send(this.gate).catch((error) => this.gate.log(String(error)));
        if (this.gate.state === undefined && Date.now() - this.#fetched > TABLE_GOOD) this.#fetch();
    }

    /** Keep a report that could not be delivered. */
    owe(report) {
        this.late.owe(report);
        this.#carry();
    }

    async #fetch() {
        this.#fetched = Date.now();
        try {
            this.#table = tableOf(await this.gate.ask("GET", "/fallback")) ?? this.#table;
        } catch {
            this.#fetched = 0; // the gate's next answer triggers another attempt
        }
    }

    // --- Texts for the next turn of a session ------------------------------------------------------

    tell(session, note) {
        const notes = this.notes.get(session) ?? [];
        notes.push(note);
        this.notes.set(session, notes.slice(-MOST_NOTES));
    }

    /** Return the text before a turn: blocked deliveries, and what other sessions are doing. "" if there is none. */
    async before(session, cwd) {
        const notes = this.notes.get(session) ?? [];
        this.notes.delete(session);
        const query = new URLSearchParams({ ...this.who(session), ...(cwd ? { cwd } : {}) });
        try {
            if (this.settings.brief) notes.push((await this.gate.ask("GET", `/brief?${query}`)).text);
        } catch (error) {
            this.missed(error.message);
        }
        return notes.filter((text) => typeof text === "string" && text).join("\n\n");
    }

    // --- Heartbeat -----------------------------------------------------------------------------------

    /** Return whether this process is a running gateway. */
    get isGateway() {
        return this.#timer !== null;
    }

    /** Start to report that this gateway lives and is gated. Start the gate of this machine if necessary. */
    live() {
        if (this.#timer !== null) return;
        const beat = () => this.#beat().catch((error) => this.missed(error.message));
        this.#timer = setInterval(beat, this.settings.seconds * 1000);
        this.#timer.unref?.();
        this.gate.start().then(beat);
    }

    /** Stop the reports. If the gateway continues without them, the gate notices and says so. */
    rest() {
        clearInterval(this.#timer);
        this.#timer = null;
    }

    async #beat() {
        await this.gate.ask(
            "POST",
            "/events",
            beatOf(this.settings, { openCalls: this.calls.open.length, lateCalls: this.late.size }),
            {
                deadline: 5000,
            },
        );
        this.reached();
    }
}

/** Return the event that a gateway lives. It names the process, so that a silent one differs from an ended one. */
export function beatOf({ instance, namespace, seconds }, metrics = {}) {
    return {
        type: "health.ok",
        instance: `${nameOf(instance)}/openclaw:${process.pid}`,
        ...(namespace === undefined ? {} : { namespace }),
        metrics: { everySeconds: seconds, pid: process.pid, hostname: os.hostname(), plugin: VERSION, ...metrics },
    };
}

/** Return the link for these settings: a single one, whichever copy of the modules asks. */
export function linkOf(settings, log) {
    const links = (globalThis[SHARED] ??= new Map());
    const key = JSON.stringify([VERSION, settings]);
    let link = links.get(key);
    if (link === undefined) links.set(key, (link = new Link(settings, log)));
    return link;
}
