/** How grave a call can be, for the time when nobody can be asked, and what is then let through. */

import fs from "node:fs";
import path from "node:path";

/** The table that the gate keeps in its state folder. */
const FILE = "fallback.json";
const MAX_SIZE = 4_000_000;
/** A tool that is not in the table. */
const UNKNOWN = 3;
/** The highest tier that goes on. */
const LIMITS = { tier: 2, open: 4, closed: 0 };
/** What runs commands can do anything, whatever a table says. Lower case, without what joins the words. */
const SHELLS = new Set(
    `bash bashexec bashtool cmd cmdexe commandexec exec execbash execcommand execshell executebash executecommand
    executeshell executeshellcommand fish localshell powershell pwsh runbash runcmd runcommand runcommandline
    runinterminal runpowershell runshell runshellcommand runterminal runterminalcmd runterminalcommand sh shell
    shellcommand shellexec shelltool ssh terminal terminalcommand terminalexec zsh`.split(/\s+/),
);
/** Tools of OpenClaw's own that no rule names, and what they can do at most. */
const OWN = { update_plan: 0, sessions_yield: 0, session_status: 0, heartbeat_respond: 1 };
/** Before there is a table: tools of the hosts that only read. The client in Python has the same. */
const READS = new Set(
    `BashOutput Glob Grep LS NotebookRead Read TaskOutput TodoRead WebFetch WebSearch agents_list find glob
    google_web_search grep list_directory ls memory_get memory_search read read_file search_file_content session_status
    sessions_history sessions_list tool_describe tool_search web_fetch web_search`.split(/\s+/),
);
/** What `process` can do to a command that runs: look at it. All else speaks to a shell. */
const LOOKS = new Set(["list", "poll", "log"]);

/** Checks a table, `{"tools": {name: tier}}`. `undefined` for anything else. */
export function tableOf(content) {
    const tools = content?.tools;
    if (typeof tools !== "object" || tools === null || Array.isArray(tools)) return undefined;
    const entries = Object.entries(tools);
    if (!entries.every(([, tier]) => Number.isInteger(tier) && tier >= 0 && tier <= 4)) return undefined;
    return new Map(entries);
}

/** The table beside the gate, `undefined` where there is none that can be used. */
export function tableIn(state) {
    try {
        const file = path.join(state, FILE);
        if (fs.statSync(file).size > MAX_SIZE) return undefined;
        return tableOf(JSON.parse(fs.readFileSync(file, "utf8")));
    } catch {
        return undefined;
    }
}

/** The highest tier that a call can have. `_tier` among its params can raise it, as it does at the gate. */
export function tierOf(tool, params, table) {
    const said = Math.ceil(Number(params?._tier ?? 0));
    const raised = said > 0 ? Math.min(said, 4) : 0;
    if (tool === "process" && !table?.has(tool)) return Math.max(LOOKS.has(params?.action) ? 0 : UNKNOWN, raised);
    const last = tool.split(/__|[.:/]/).findLast((part) => part !== "") ?? "";
    const shell = SHELLS.has(last.toLowerCase().replace(/[\s_-]/g, "")) ? UNKNOWN : 0;
    const reads = table === undefined && READS.has(tool) ? 0 : UNKNOWN;
    return Math.max(table?.get(tool) ?? OWN[tool] ?? reads, shell, raised);
}

/** Whether a call of this tier goes on while the gate is away. */
export function goesOn(tier, failMode) {
    return tier <= LIMITS[failMode];
}
