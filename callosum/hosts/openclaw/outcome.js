/** How a tool call ended, from what OpenClaw says after it. What is not said is unknown, never a success. */

/** Longest text of a result that is reported; the gate summarises it again. */
const MOST = 2000;
/** Exit codes that a shell gives for what was stopped from outside: whether it had done its work nobody knows. */
const STOPPED = new Set([124, 130, 137, 143]);
/** Said of calls that did not run at all. */
const NOT_RUN = /^(?:Tool call blocked|Plugin approval|.*\b(?:policy evaluation failed|hook failed)\b)/;
const ABORTED = /^(?:Aborted|AbortError|The operation was aborted|This operation was aborted)/i;

function textOf(result, most = MOST) {
    if (typeof result === "string") return result.slice(0, most);
    const parts = Array.isArray(result?.content) ? result.content : [];
    return parts
        .map((part) => (typeof part?.text === "string" ? part.text : ""))
        .join("\n")
        .slice(0, most);
}

/** What of a result is reported: its text, and how a command ended. */
function told(result, details, most) {
    const found = { text: textOf(result, most) };
    if (Number.isInteger(details.exitCode)) found.exitCode = details.exitCode;
    return found;
}

/** The command that goes on after its call has come back: OpenClaw's name of it, `undefined` if none does. */
export function backgroundOf(event) {
    const details = event.result?.details;
    if (event.error || details?.status !== "running") return undefined;
    return typeof details.sessionId === "string" ? details.sessionId : undefined;
}

/** How a command ended that `details` speaks of; `undefined` while it runs, and where they speak of something else. */
export function endedOf(details) {
    const { status, exitCode, exitSignal } = details ?? {};
    if (status === "running") return undefined;
    const stopped = exitSignal || details?.timedOut || details?.noOutputTimedOut || STOPPED.has(exitCode);
    if (stopped || status === "killed" || status === "timeout") {
        return { outcome: "unknown", why: `stopped (${exitSignal ?? exitCode ?? status})` };
    }
    if (Number.isInteger(exitCode))
        return exitCode === 0 ? { outcome: "done" } : { outcome: "failed", why: `exit code ${exitCode}` };
    if (status === "failed" || status === "error")
        return { outcome: "failed", why: String(details.error ?? status).slice(0, MOST) };
    return status === "completed" ? { outcome: "done" } : undefined;
}

/**
 * `{outcome, result}` as they are reported; `outcome` is absent where the gate is to judge by the error's words.
 *
 * `most`: how many characters of the text of a call that is done.
 */
export function outcomeOf({ error, result }, most = MOST) {
    const details = typeof result?.details === "object" && result.details !== null ? result.details : {};
    if (details.status === "blocked")
        return { outcome: "cancelled", result: { error: `did not run: ${details.reason ?? error}` } };
    if (error) {
        const said = String(error).slice(0, MOST);
        if (ABORTED.test(said)) return { outcome: "unknown", result: { error: said } };
        if (NOT_RUN.test(said)) return { outcome: "cancelled", result: { error: said } };
        const ended = endedOf(details);
        return {
            outcome: ended?.outcome === "unknown" ? "unknown" : undefined,
            result: { ...told(result, details), error: said },
        };
    }
    if (result === undefined || result === null)
        return { outcome: "unknown", result: { note: "the host told no result" } };
    const ended = endedOf(details);
    if (ended !== undefined && ended.outcome !== "done") {
        return { outcome: ended.outcome, result: { ...told(result, details), error: ended.why } };
    }
    if (result.isError === true || details.ok === false || details.error) {
        return {
            result: {
                ...told(result, details),
                error: String(details.error ?? textOf(result) ?? "an error").slice(0, MOST),
            },
        };
    }
    return { outcome: "done", result: told(result, details, most) };
}
