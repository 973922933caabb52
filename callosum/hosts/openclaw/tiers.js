/** Classify calls by tier for the time when the gate is unreachable, and say which calls then run. */

import fs from "node:fs";
import path from "node:path";

/** File name of the tier table that the gate keeps in its state folder. */
const FILE = "fallback.json";
const MAX_SIZE = 4_000_000;
/** Tier of a tool that the table does not list. */
const UNKNOWN = 3;
/** Highest tier that runs without the gate. */
const LIMITS = { tier: 2, open: 4, closed: 0 };
/** Words of tools that run commands, which can do anything whatever the table says. Lower case, without separators. */
const SHELLS = new Set(
    `bash bashexec bashtool cmd cmdexe commandexec exec execbash execcommand execshell executebash executecommand
    executeshell executeshellcommand fish localshell powershell pwsh runbash runcmd runcommand runcommandline
    runinterminal runpowershell runshell runshellcommand runterminal runterminalcmd runterminalcommand sh shell
    shellcommand shellexec shelltool ssh terminal terminalcommand terminalexec zsh`.split(/\s+/),
);
/** OpenClaw's own tools that no rule names, with their maximum tier. */
const OWN = { update_plan: 0, sessions_yield: 0, session_status: 0, heartbeat_respond: 1 };
/** Read-only tools of the hosts, for use before there is a table. The Python client has the same list. */
const READS = new Set(
    `BashOutput Glob Grep LS NotebookRead Read TaskOutput TodoRead WebFetch WebSearch agents_list find glob
    google_web_search grep list_directory ls memory_get memory_search read read_file search_file_content session_status
    sessions_history sessions_list tool_describe tool_search web_fetch web_search`.split(/\s+/),
);
/** Actions of `process` that only look at a running command. All others write to a shell. */
const LOOKS = new Set(["list", "poll", "log"]);

/** Return a valid table, `{"tools": {name: tier}}`, or `undefined` for anything else. */
export function tableOf(content) {
    const tools = content?.tools;
    if (typeof tools !== "object" || tools === null || Array.isArray(tools)) return undefined;
    const entries = Object.entries(tools);
    if (!entries.every(([, tier]) => Number.isInteger(tier) && tier >= 0 && tier <= 4)) return undefined;
    return new Map(entries);
}

/** Return the table of the state folder, or `undefined` if there is no valid one. */
export function tableIn(state) {
    try {
        const file = path.join(state, FILE);
        if (fs.statSync(file).size > MAX_SIZE) return undefined;
        return tableOf(JSON.parse(fs.readFileSync(file, "utf8")));
    } catch {
        return undefined;
    }
}

/** Return the maximum tier of a call. `_tier` among its params can raise it, as at the gate. */
export function tierOf(tool, params, table) {
    const said = Math.ceil(Number(params?._tier ?? 0));
    const raised = said > 0 ? Math.min(said, 4) : 0;
    if (tool === "process" && !table?.has(tool)) return Math.max(LOOKS.has(params?.action) ? 0 : UNKNOWN, raised);
    const last = tool.split(/__|[.:/]/).findLast((part) => part !== "") ?? "";
    const shell = SHELLS.has(last.toLowerCase().replace(/[\s_-]/g, "")) ? UNKNOWN : 0;
    const reads = table === undefined && READS.has(tool) ? 0 : UNKNOWN;
    return Math.max(table?.get(tool) ?? OWN[tool] ?? reads, shell, raised);
}

/** Return whether a call of this tier runs while the gate is unreachable. */
export function goesOn(tier, failMode) {
    return tier <= LIMITS[failMode];
}
