/** Make names that the gate accepts: at most 256 characters, all of them visible. */

import { blake2b } from "./blake2b.js";

const MOST = 256;
/** Invisible characters, those that change a text's direction, and terminal controls, as in `callosum.characters`. */
const UNUSABLE = new RegExp(
    "[\\p{Cc}\\p{Cf}\\p{Co}\\p{Cs}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}\\u2800\\ufff0-\\ufffb]",
    "gu",
);

/** Return a name from what the host says. A name that cannot be used as it is gets a digest of the original. */
export function nameOf(text) {
    const seen = String(text).replace(UNUSABLE, "\ufffd");
    if (seen.length <= MOST && seen === text && seen !== "") return seen;
    return `${[...seen].slice(0, 100).join("")}#${blake2b(String(text), 8)}`;
}

/** A map that drops its oldest entries. */
export class Bounded extends Map {
    constructor(most, forgotten = () => {}) {
        super();
        this.most = most;
        this.forgotten = forgotten;
    }

    set(key, value) {
        this.delete(key);
        super.set(key, value);
        while (this.size > this.most) {
            const [oldest, gone] = this.entries().next().value;
            this.delete(oldest);
            this.forgotten(gone);
        }
        return this;
    }
}
