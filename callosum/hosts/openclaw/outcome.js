/**
 * Determine how a tool call ended from what OpenClaw says afterwards. Whatever it does not say is unknown, not a
 * success.
 */

/** Maximum length in characters of a result's text in a report; the gate summarises it again. */
const MOST = 2000;
/** Exit codes that a shell gives for an externally stopped command, which may or may not have done its work. */
const STOPPED = new Set([124, 130, 137, 143]);
/** Statuses of calls that did not run at all. */
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

/** Return the part of a result that is reported: its text, and how a command ended. */
function told(result, details, most) {
    const found = { text: textOf(result, most) };
    if (Number.isInteger(details.exitCode)) found.exitCode = details.exitCode;
    return found;
}

/** Return OpenClaw's name for the command that continues after its call, or `undefined` if none does. */
export function backgroundOf(event) {
    const details = event.result?.details;
    if (event.error || details?.status !== "running") return undefined;
    return typeof details.sessionId === "string" ? details.sessionId : undefined;
}

/** Return how the command in `details` ended; `undefined` while it runs, and for details about something else. */
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
 * Return the `{outcome, result}` of a report. `outcome` is absent if the gate is to judge by the error's text.
 *
 * `most` is the maximum number of characters of the text of a successful call.
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
