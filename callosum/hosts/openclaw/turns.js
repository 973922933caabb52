/**
 * Remember sessions and their turns: their folders, their causes, their parents, and what they have seen.
 *
 * The hooks around a tool call say none of that; the hooks of the turn and of its message do.
 */

import { Bounded, nameOf } from "./names.js";

const SESSIONS = 2000;
const RUNS = 2000;
/** Maximum number of characters of a prompt that are sent to the gate. */
const PURPOSE = 1000;

export class Turns {
    #sessions = new Bounded(SESSIONS);
    #runs = new Bounded(RUNS);
    #firings = new Bounded(SESSIONS);
    #workspace;

    /** Folder of sessions without a known turn. */
    works(folder) {
        if (typeof folder === "string" && folder) this.#workspace = folder;
    }

    session(key) {
        let found = this.#sessions.get(key);
        if (found === undefined) this.#sessions.set(key, (found = {}));
        return found;
    }

    /** Return the turn with this id, or an unsaved `{}` if there is none. */
    run(id) {
        return (id && this.#runs.get(id)) || {};
    }

    /** Note that a message arrived: it causes the next turn of its session. */
    received(sessionKey, { channel, conversation, message }) {
        if (!sessionKey || !message) return;
        this.session(sessionKey).origin = nameOf(`message:${channel}:${conversation}:${message}`);
    }

    /** Note that a scheduled job starts. */
    fired(job, at) {
        if (job && at) this.#firings.set(job, at);
    }

    /** Note what a hook says about a turn. Return true for the first hook of a turn. */
    seen(ctx) {
        const { runId, sessionKey, workspaceDir, trigger, jobId } = ctx;
        if (!runId) return false;
        let run = this.#runs.get(runId);
        const first = run === undefined;
        if (first) this.#runs.set(runId, (run = { session: sessionKey, seen: 0, answered: 0 }));
        if (workspaceDir) run.cwd = workspaceDir;
        if (trigger && run.trigger === undefined) {
            run.trigger = trigger;
            run.origin = this.#origin(trigger, runId, sessionKey, jobId);
        }
        if (sessionKey) {
            const session = this.session(sessionKey);
            session.run = runId;
            if (workspaceDir) session.cwd = workspaceDir;
        }
        return first;
    }

    #origin(trigger, runId, sessionKey, jobId) {
        if (trigger === "cron") return nameOf(`cron:${jobId ?? sessionKey}:${this.#firings.get(jobId) ?? runId}`);
        if (trigger === "heartbeat") return nameOf(`heartbeat:${runId}`);
        if (!sessionKey) return undefined;
        const session = this.session(sessionKey);
        const { origin } = session;
        delete session.origin; // a message causes one turn only
        return origin;
    }

    /** Note that one session started another. */
    spawned(child, requester) {
        if (child && requester && child !== requester) this.session(child).parent = requester;
    }

    parentOf(sessionKey) {
        return sessionKey ? this.#sessions.get(sessionKey)?.parent : undefined;
    }

    cwdOf(runId, sessionKey) {
        return this.run(runId).cwd ?? (sessionKey && this.#sessions.get(sessionKey)?.cwd) ?? this.#workspace;
    }

    originOf(runId, sessionKey) {
        const run = this.run(runId);
        if (run.trigger !== undefined) return run.origin;
        return sessionKey ? this.#sessions.get(sessionKey)?.origin : undefined;
    }

    /** Note the prompt of the turn if a person typed it; a scheduled turn serves no prompt. */
    prompted(ctx, prompt) {
        const run = this.#runs.get(ctx.runId);
        if (run !== undefined && run.trigger === "user" && typeof prompt === "string" && prompt) {
            run.purpose = prompt.slice(0, PURPOSE).toWellFormed();
        }
    }

    purposeOf(runId) {
        return this.run(runId).purpose;
    }

    /** Note the gate's decision about a call of the turn. */
    answered(runId, id) {
        const run = this.#runs.get(runId);
        if (run !== undefined && id > run.answered) run.answered = id;
    }

    /** Note that the model is asked again, so that it has seen all earlier answers. */
    asked(runId) {
        const run = this.#runs.get(runId);
        if (run !== undefined) run.seen = run.answered;
    }

    /** Return the newest decision that the model had seen when it made its calls, or `undefined` if unknown. */
    seenBy(runId) {
        return this.run(runId).seen || undefined;
    }
}
