/** Calls that ran while the gate was away, oldest first, until they are journalled. */

import { Away } from "./gate.js";

const MOST = 1000;
const PAGE = 200;
/** Longest call that is kept whole, in characters of JSON; of a longer one its params are left out. */
const LONGEST = 100_000;

export class Late {
    #calls = [];
    #sending = false;

    get size() {
        return this.#calls.length;
    }

    /** Keeps a call; the answer takes its outcome. One without a report is sent as done when its time is up. */
    add(call) {
        const { pause, wait, schema, host, after, rewrite, ...kept } = call;
        const text = JSON.stringify(kept);
        const item = {
            call: text.length > LONGEST ? { ...kept, params: {} } : kept,
            outcome: undefined,
            at: Date.now(),
        };
        this.#calls.push(item);
        if (this.#calls.length > MOST) this.#calls.shift();
        return item;
    }

    /** Sends what is reported, or older than `patience` milliseconds. Returns how many were taken. */
    async send(gate, patience = 60_000) {
        if (this.#sending || !this.#calls.length) return 0;
        this.#sending = true;
        let sent = 0;
        try {
            for (;;) {
                const old = Date.now() - patience;
                const page = this.#calls.filter((item) => item.outcome !== undefined || item.at <= old).slice(0, PAGE);
                if (!page.length) return sent;
                sent += await this.#page(gate, page);
            }
        } catch (error) {
            if (!(error instanceof Away)) throw error;
            return sent;
        } finally {
            this.#sending = false;
        }
    }

    /** A page that the gate refuses is sent call by call, and what it then refuses is given up. */
    async #page(gate, page) {
        const calls = page.map(({ call, outcome }) => ({ call, outcome: outcome ?? "done" }));
        try {
            await gate.ask("POST", "/late", { calls }, { deadline: 10_000 });
        } catch (error) {
            if (error instanceof Away) throw error;
            if (page.length > 1) {
                let sent = 0;
                for (const item of page) sent += await this.#page(gate, [item]);
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
        this.#calls = this.#calls.filter((item) => !gone.has(item));
    }
}
