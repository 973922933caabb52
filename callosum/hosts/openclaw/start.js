/**
 * Start the gate of this machine, and check the process that listens on its socket.
 *
 * The rules are those of `callosum/launch.py` and `callosum/sockets.py`; a test compares the lists of names.
 */

import fs from "node:fs";
import path from "node:path";

/** Working folder of the gate, which belongs to no project. */
export const NEUTRAL = "/";
/** Variables that change which code a process runs, and Callosum's own, which are passed on only as options. */
export const DROPPED = new Set([
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "LOCPATH",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "BASH_ENV",
    "BASHOPTS",
    "ENV",
    "IFS",
    "PS4",
    "SHELLOPTS",
    "NODE_OPTIONS",
    "__PYVENV_LAUNCHER__",
]);
export const DROPPED_PREFIXES = ["PYTHON", "LD_", "DYLD_", "BASH_FUNC_", "CALLOSUM_"];
const LAUNCHER = "/callosum/launch.py";

/** Return the variables for the gate. */
export function environment(environ = process.env) {
    const dropped = (name) => DROPPED.has(name) || DROPPED_PREFIXES.some((prefix) => name.startsWith(prefix));
    return Object.fromEntries(Object.entries(environ).filter(([name]) => !dropped(name)));
}

/**
 * Return why the process that listens on the socket must not be asked, or `""`. `command` starts the gate.
 *
 * Node.js does not show which process is at the other end. Therefore the owner of the socket counts, which is in a
 * folder that nobody else can write, and the file in which the gate names its installation.
 */
export function stranger(socket, command) {
    let owner;
    try {
        owner = fs.statSync(socket).uid;
    } catch {
        return ""; // nothing listens: connecting reports it
    }
    if (owner !== process.getuid()) return `${socket} belongs to another user (${owner})`;
    const launcher = command.find((word) => word.endsWith(LAUNCHER));
    if (launcher === undefined) return ""; // the user's own command: nothing names its installation
    try {
        const [pid, programs, root] = fs.readFileSync(`${socket}.origin`, "utf8").split("\n");
        const ours = [fs.realpathSync(path.dirname(command[0])), fs.realpathSync(launcher).slice(0, -LAUNCHER.length)];
        if (programs !== ours[0] || root !== ours[1]) {
            return `process ${pid}, which listens there, runs from another installation (${root} of ${programs})`;
        }
        if (fs.existsSync("/proc/self") && !fs.existsSync(`/proc/${Number(pid)}`)) {
            return `process ${pid}, which was to listen there, has ended`;
        }
    } catch (error) {
        return `the process that listens there does not name its installation: ${error.code ?? error.message}`;
    }
    return "";
}
