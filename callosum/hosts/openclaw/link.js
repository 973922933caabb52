/**
 * What all sessions of a process share: the connection, what is known of them, and the sign of life.
 *
 * OpenClaw evaluates a plugin's modules twice in one process, and some hooks reach the one copy, some the other. So
 * what they share hangs on `globalThis`.
 */

import os from "node:os";

import { Calls } from "./calls.js";
import { Deliveries } from "./deliveries.js";
import { Events } from "./events.js";
import { Gate } from "./gate.js";
import { Late } from "./late.js";
import { nameOf } from "./names.js";
import { thisProcess } from "./place.js";
import { tableIn, tableOf } from "./tiers.js";
import { Turns } from "./turns.js";
import { VERSION } from "./version.js";

const SHARED = Symbol.for("callosum.openclaw");
/** How often it is tried to send what waits in memory, and for how long a table that was fetched is good, in
 * milliseconds. */
const CARRY = 1000;
const TABLE_GOOD = 600_000;
/** A gate that is away is told of in the log once in so many milliseconds. */
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
        this.late = new Late(this.gate.state);
        this.calls = new Calls(this);
        this.deliveries = new Deliveries(this);
        this.events = new Events(this);
        this.who = this.who.bind(this);
        this.notes = new Map();
    }

    /** The words of the wire for a session. */
    who(session) {
        const { instance, namespace } = this.settings;
        return {
            instance: nameOf(instance),
            session: nameOf(session ?? "main"),
            ...(namespace === undefined ? {} : { namespace }),
        };
    }

    // --- while the gate is away, and when it is back ----------------------------------------------

    /** The table of tiers in force, `undefined` where there is none: then what is unknown counts as 3. */
    table() {
        return (this.gate.state === undefined ? undefined : tableIn(this.gate.state)) ?? this.#table;
    }

    /** The gate did not answer. */
    missed(why) {
        this.#carry();
        const now = Date.now();
        if (now - this.#toldAt < REMIND) return;
        this.#toldAt = now;
        this.gate.log(`the gate at ${this.gate.address} cannot be asked: ${why}`);
    }

    /** Tells the gate what it does not know yet, before it is asked something. Does not throw. */
    async told() {
        if (!this.late.size) return;
        const half = this.settings.deadline / 2;
        await this.late.send(this.gate, half).catch((error) => this.gate.log(String(error)));
        this.#carry();
    }

    /** Tries again and again while something waits in memory, so that the gate knows soon after it is back. */
    #carry() {
        if (this.#carrying !== null || !this.late.size) return;
        this.#carrying = setTimeout(async () => {
            await this.late.send(this.gate, CARRY).catch((error) => this.gate.log(String(error)));
            this.#carrying = null;
            this.#carry();
        }, CARRY);
        this.#carrying.unref?.();
    }

    /** The gate has answered: what waits for it is sent beside the calls. */
    reached() {
        if (this.late.size) this.late.send(this.gate).catch((error) => this.gate.log(String(error)));
        if (this.gate.state === undefined && Date.now() - this.#fetched > TABLE_GOOD) this.#fetch();
    }

    /** Keeps a report that could not be delivered. */
    owe(report) {
        this.late.owe(report);
        this.#carry();
    }

    async #fetch() {
        this.#fetched = Date.now();
        try {
            this.#table = tableOf(await this.gate.ask("GET", "/fallback")) ?? this.#table;
        } catch {
            this.#fetched = 0; // the next answer of the gate tries again
        }
    }

    // --- what a session is told with its next turn -------------------------------------------------

    tell(session, note) {
        const notes = this.notes.get(session) ?? [];
        notes.push(note);
        this.notes.set(session, notes.slice(-MOST_NOTES));
    }

    /** What goes before a turn: what was not delivered, and what other sessions have in hand. "" for nothing. */
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

    // --- the sign of life ---------------------------------------------------------------------------

    /** Whether this process is a gateway that runs. */
    get isGateway() {
        return this.#timer !== null;
    }

    /** Begins to tell the gate that this gateway lives and is gated; starts the gate of this machine if need be. */
    live() {
        if (this.#timer !== null) return;
        const beat = () => this.#beat().catch((error) => this.missed(error.message));
        this.#timer = setInterval(beat, this.settings.seconds * 1000);
        this.#timer.unref?.();
        this.gate.start().then(beat);
    }

    /** Ends that. If the gateway goes on without, the gate sees it and says so. */
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

/** The event that a gateway lives. It names its process: one that lives and is silent is not one that has ended. */
export function beatOf({ instance, namespace, seconds }, metrics = {}) {
    return {
        type: "health.ok",
        instance: `${nameOf(instance)}/openclaw:${process.pid}`,
        ...(namespace === undefined ? {} : { namespace }),
        metrics: { everySeconds: seconds, pid: process.pid, hostname: os.hostname(), plugin: VERSION, ...metrics },
    };
}

/** The link for these settings, one in a process whichever copy of the modules asks. */
export function linkOf(settings, log) {
    const links = (globalThis[SHARED] ??= new Map());
    const key = JSON.stringify([VERSION, settings]);
    let link = links.get(key);
    if (link === undefined) links.set(key, (link = new Link(settings, log)));
    return link;
}
