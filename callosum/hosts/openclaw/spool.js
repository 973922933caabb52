/**
 * Write the spool of a state folder, `late.jsonl`, which the gate of this machine reads before its next decision.
 *
 * Node has no file locks. The gate reads the file once more after it removes it, and a writer checks afterwards whether
 * the file still exists. A record written in between is written again, which changes nothing.
 */

import fs from "node:fs";
import path from "node:path";

const FILE = "late.jsonl";
/** Maximum lengths in bytes of the file and of a record. */
const MAX_FILE = 4_000_000;
const MAX_RECORD = 200_000;
const TRIES = 8;

/** Append a record. Return whether it is in the file; if not, keep it in memory. */
export function append(state, record) {
    const line = Buffer.from(`\n${JSON.stringify(record)}\n`);
    if (line.length > MAX_RECORD) return false;
    const file = path.join(state, FILE);
    const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = fs.constants;
    try {
        fs.mkdirSync(state, { recursive: true, mode: 0o700 });
        for (let tries = 0; tries < TRIES; tries++) {
            const opened = fs.openSync(file, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600);
            try {
                const before = fs.fstatSync(opened);
                if (!before.isFile() || before.uid !== process.geteuid()) return false;
                if (before.size + line.length > MAX_FILE) return false;
                if (fs.writeSync(opened, line) !== line.length) return false;
                const named = fs.lstatSync(file, { throwIfNoEntry: false });
                if (named !== undefined && named.ino === before.ino && named.dev === before.dev) return true;
            } finally {
                fs.closeSync(opened);
            }
        }
    } catch {
        // the folder cannot be written, so the record stays in memory
    }
    return false;
}

/** Suffixes of the names of params that name a file or a folder. */
const NAMING = /(?:path|file|dir|folder|cwd|workdir|glob)$/i;
/** Params that hold content, from which no key is derived. */
const CONTENT = /^(?:contents?|text|data|input|patch|diff|file_?text|(?:old|new)_?(?:str|string|text))$/i;
/** The lines of a patch that name its files. */
const PATCHED = /^\*\*\* (?:Begin Patch|End Patch|(?:Add|Update|Delete) File: .*|Move to: .*)$/gm;
/** Matches a run of characters that may be a secret. */
const SECRETIVE = /(?=[A-Za-z_+/=-]*\d)[A-Za-z0-9_+=-]{20,}/;
const LONGEST = 2000;

/**
 * Return the params in the form in which they may be stored: numbers, file names and the file names of a patch, from
 * which the gate derives the keys. Return `undefined` if a key may depend on an omitted value, or if a kept value may
 * contain a secret.
 */
export function summaryOf(params) {
    const found = {};
    for (const [name, value] of Object.entries(params ?? {})) {
        if (typeof value === "number" || typeof value === "boolean") found[name] = value;
        if (typeof value !== "string") continue;
        const headers = value.startsWith("*** Begin Patch") ? value.match(PATCHED).join("\n") : undefined;
        const kept = headers ?? (NAMING.test(name) ? value : undefined);
        if (kept === undefined && !CONTENT.test(name)) return undefined;
        if (kept !== undefined && (kept.length > LONGEST || SECRETIVE.test(kept))) return undefined;
        found[name] = kept ?? `(${value.length} characters)`;
    }
    return found;
}
