/**
 * The spool of a state folder, `late.jsonl`: what the gate of this machine takes in before its next decision.
 *
 * Node has no file locks. Who takes the file in reads it once more after removing it, and who writes looks afterwards
 * whether it is still there: a record that fell in between is written again, which changes nothing.
 */

import fs from "node:fs";
import path from "node:path";

const FILE = "late.jsonl";
/** Longest file and longest record, in bytes. */
const MAX_FILE = 4_000_000;
const MAX_RECORD = 200_000;
const TRIES = 8;

/** Appends a record. Returns whether it is in the file; if not, it is to be kept in memory. */
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
        // a folder that cannot be written: the memory has it
    }
    return false;
}

/** How the names of params end that name a file or a folder. */
const NAMING = /(?:path|file|dir|folder|cwd|workdir|glob)$/i;
/** Params that hold content, which no key is made of. */
const CONTENT = /^(?:contents?|text|data|input|patch|diff|file_?text|(?:old|new)_?(?:str|string|text))$/i;
/** The lines of a patch that name its files. */
const PATCHED = /^\*\*\* (?:Begin Patch|End Patch|(?:Add|Update|Delete) File: .*|Move to: .*)$/gm;
/** A run of characters that may be a secret. */
const SECRETIVE = /(?=[A-Za-z_+/=-]*\d)[A-Za-z0-9_+=-]{20,}/;
const LONGEST = 2000;

/**
 * The params as they may stand in the file: numbers, names of files, the file names of a patch. The gate derives the
 * keys from it. `undefined` where a key may hang on what would be left out, or a secret may be in what would be kept.
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
