/** Cut long texts among a call's params before they are sent, because the gate accepts and needs less. */

import { createHash } from "node:crypto";

/** Length in characters above which a text is cut. */
export const LONG = 500_000;
/** Depth below which nothing is cut. */
const DEEPEST = 6;

/**
 * Return the value with each long text cut to its beginning and a digest of the whole text. Equal texts stay equal and
 * different texts stay different.
 */
export function shortened(value, most = LONG, depth = 0) {
    if (typeof value === "string") return value.length <= most ? value : cut(value, most);
    if (depth > DEEPEST || typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map((one) => shortened(one, most, depth + 1));
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shortened(one, most, depth + 1)]));
}

/** Return params that were cut, with a param that says which were: they count as risky if what was cut may matter. */
export function shortenedParams(params) {
    const short = shortened(params);
    const size = (one) => JSON.stringify(one)?.length;
    const names = Object.keys(short).filter((name) => size(short[name]) !== size(params[name]));
    return { ...short, "callosum:unread": { in: names.slice(0, 64) } };
}

function cut(text, most) {
    const digest = createHash("sha256").update(text).digest("hex").slice(0, 32);
    return `${text.slice(0, most)}\n… ${text.length} characters, ${digest}`;
}
