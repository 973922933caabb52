/** Names as the gate takes them: at most 256 characters, all of which can be seen. */

import { blake2b } from "./blake2b.js";

const MOST = 256;
/** Characters that nobody sees, that turn the direction of a text, or that a terminal obeys: as `callosum.characters`. */
const UNUSABLE = new RegExp(
    "[\\p{Cc}\\p{Cf}\\p{Co}\\p{Cs}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}\\u2800\\ufff0-\\ufffb]",
    "gu",
);

/** A name of what the host says. One that cannot be used as it is gets a digest of the whole behind it. */
export function nameOf(text) {
    const seen = String(text).replace(UNUSABLE, "\ufffd");
    if (seen.length <= MOST && seen === text && seen !== "") return seen;
    return `${[...seen].slice(0, 100).join("")}#${blake2b(String(text), 8)}`;
}

/** A map that forgets what was put in longest ago. */
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
