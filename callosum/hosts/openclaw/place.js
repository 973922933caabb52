/** Where the gate of this machine keeps its state and listens, and who this process is: as Callosum itself has it. */

import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { blake2b } from "./blake2b.js";

/** Longest path of a Unix socket, in bytes, that every system takes. */
const LONGEST = 100;
/** Ticks of Linux's clock of processes in a second, on every machine there is. */
const TICKS = 100;

/** The state folder: the one that is named, else of the environment, else the platform's. */
export function stateFolder(named, environ = process.env) {
    const given = named ?? (environ.CALLOSUM_STATE || undefined);
    if (given !== undefined) return path.resolve(given.replace(/^~(?=$|\/)/, os.homedir()));
    if (environ.XDG_STATE_HOME && path.isAbsolute(environ.XDG_STATE_HOME)) {
        return path.join(environ.XDG_STATE_HOME, "callosum");
    }
    if (process.platform === "darwin") return path.join(os.homedir(), "Library", "Application Support", "callosum");
    return path.join(os.homedir(), ".local", "state", "callosum");
}

/** Where the gate of a state folder listens: in it, or if that path is too long, in a folder of the user's own. */
export function socketPath(state, environ = process.env) {
    const inside = path.join(state, "gate.sock");
    if (Buffer.byteLength(inside) <= LONGEST) return inside;
    const base = environ.XDG_RUNTIME_DIR || path.join(os.homedir(), ".callosum");
    return `${base}/${blake2b(state, 6)}.sock`;
}

/** The folder in which this process's `openclaw agent exec` works, which no hook tells; else `undefined`. */
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
 * This process as the gate knows processes: `[pid, started, machine]`. A lease that is given to it ends with it.
 *
 * `undefined` where the system does not tell it this way: then the lease is prolonged from time to time instead.
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

/** The id of this machine's boot, "" where the system does not tell it. */
const BOOT = read("/proc/sys/kernel/random/boot_id");
/** Longest time that a request may say its client waits, in milliseconds. */
const MAX_TIMEOUT = 86_400_000;

/**
 * The fields that say how long a client waits, given what is left in milliseconds: `timeoutMs` from the request's
 * arrival, and for a gate of this machine `deadline`, the boot's id and the moment in seconds since the boot.
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
