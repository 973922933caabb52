/** Long texts among a call's params, cut before they are sent: the gate takes less, and needs less. */

import { createHash } from "node:crypto";

/** A text that is longer, in characters, is cut. */
export const LONG = 500_000;
/** Deeper than this nothing is looked at. */
const DEEPEST = 6;

/**
 * The value with each long text in it cut to its begin and a digest of all of it: equal texts stay equal, others
 * different.
 */
export function shortened(value, most = LONG, depth = 0) {
    if (typeof value === "string") return value.length <= most ? value : cut(value, most);
    if (depth > DEEPEST || typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map((one) => shortened(one, most, depth + 1));
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shortened(one, most, depth + 1)]));
}

function cut(text, most) {
    const digest = createHash("sha256").update(text).digest("hex").slice(0, 32);
    return `${text.slice(0, most)}\n… ${text.length} characters, ${digest}`;
}
