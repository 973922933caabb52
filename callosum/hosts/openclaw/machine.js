/** Find the state folder and socket of this machine's gate, and identify this process, as Callosum itself does. */

import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { blake2b } from "./blake2b.js";

/** Maximum length in bytes of a Unix socket path on every system. */
const LONGEST = 100;
/** Ticks per second of Linux's process clock, which is the same on every machine. */
const TICKS = 100;

/** Return the state folder: the given one, or that of the environment, or the platform's. */
export function stateFolder(named, environ = process.env) {
    const given = named ?? (environ.CALLOSUM_STATE || undefined);
    if (given !== undefined) return path.resolve(given.replace(/^~(?=$|\/)/, os.homedir()));
    if (environ.XDG_STATE_HOME && path.isAbsolute(environ.XDG_STATE_HOME)) {
        return path.join(environ.XDG_STATE_HOME, "callosum");
    }
    if (process.platform === "darwin") return path.join(os.homedir(), "Library", "Application Support", "callosum");
    return path.join(os.homedir(), ".local", "state", "callosum");
}

/** Return where the gate of a state folder listens: in the folder or, if that path is too long, in a user folder. */
export function socketPath(state, environ = process.env) {
    const inside = path.join(state, "gate.sock");
    if (Buffer.byteLength(inside) <= LONGEST) return inside;
    const base = environ.XDG_RUNTIME_DIR || path.join(os.homedir(), ".callosum");
    return `${base}/${blake2b(state, 6)}.sock`;
}

/** Return the working folder of this process's `openclaw agent exec`, which no hook names; otherwise `undefined`. */
export function execFolder(argv = process.argv, cwd = process.cwd()) {
    const at = argv.indexOf("agent");
    if (at < 0 || argv[at + 1] !== "exec") return undefined;
    const words = argv.slice(at + 2);
    const named = words.findIndex((word) => word === "--cwd" || word.startsWith("--cwd="));
    if (named < 0) return cwd;
    const folder = words[named] === "--cwd" ? words[named + 1] : words[named].slice("--cwd=".length);
    return folder ? path.resolve(cwd, folder) : cwd;
}

/**
 * Identify this process as the gate does: `[pid, started, machine]`. A lease with this identity ends with the process.
 *
 * Return `undefined` if the system does not provide it. Then the lease is renewed regularly instead.
 */
export function thisProcess() {
    try {
        const line = fs.readFileSync("/proc/self/stat", "latin1");
        const started = Number(line.slice(line.lastIndexOf(")") + 2).split(" ")[19]) / TICKS;
        const machine = read("/etc/machine-id") || read("/var/lib/dbus/machine-id") || os.hostname();
        const boot = read("/proc/sys/kernel/random/boot_id");
        return [process.pid, started, blake2b(`${machine}\n${boot}\n${fs.readlinkSync("/proc/self/ns/pid")}`, 8)];
    } catch {
        return undefined;
    }
}

/** Return the id of this machine's boot, or "" if the system does not provide it. */
const BOOT = read("/proc/sys/kernel/random/boot_id");
/** Maximum number of milliseconds that a request may say its client waits. */
const MAX_TIMEOUT = 86_400_000;

/**
 * Return the fields that say how long a client waits, given the remaining milliseconds: `timeoutMs` from the request's
 * arrival, and for a gate of this machine `deadline`, the boot id and the time in seconds since the boot.
 */
export function stamp(left) {
    const timeoutMs = Math.min(Math.max(1, Math.floor(left)), MAX_TIMEOUT);
    return BOOT ? { timeoutMs, deadline: `${BOOT}:${(os.uptime() + left / 1000).toFixed(3)}` } : { timeoutMs };
}

function read(file) {
    try {
        return fs.readFileSync(file, "utf8").slice(0, 256).trim();
    } catch {
        return "";
    }
}
