/**
 * What is known of sessions and their turns: where they work, what caused them, who started them, what was seen.
 *
 * The hooks around a tool call say none of that; those of the turn and of the message that came before do.
 */

import { Bounded, nameOf } from "./names.js";

const SESSIONS = 2000;
const RUNS = 2000;
/** Characters of a prompt that the gate is told. */
const PURPOSE = 1000;

export class Turns {
    #sessions = new Bounded(SESSIONS);
    #runs = new Bounded(RUNS);
    #firings = new Bounded(SESSIONS);
    #workspace;

    /** The folder in which sessions work of which no turn was seen. */
    works(folder) {
        if (typeof folder === "string" && folder) this.#workspace = folder;
    }

    session(key) {
        let found = this.#sessions.get(key);
        if (found === undefined) this.#sessions.set(key, (found = {}));
        return found;
    }

    /** The turn with this id; `{}` that is not kept where there is none. */
    run(id) {
        return (id && this.#runs.get(id)) || {};
    }

    /** A message came in: it causes the next turn of its session. */
    received(sessionKey, { channel, conversation, message }) {
        if (!sessionKey || !message) return;
        this.session(sessionKey).origin = nameOf(`message:${channel}:${conversation}:${message}`);
    }

    /** A job of the schedule is fired. */
    fired(job, at) {
        if (job && at) this.#firings.set(job, at);
    }

    /** A hook of a turn says what it knows. True at the first one of a turn. */
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
        delete session.origin; // a message causes one turn
        return origin;
    }

    /** A session was started by another. */
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

    /** A person typed the prompt of the turn; what is fired by a clock serves no prompt. */
    prompted(ctx, prompt) {
        const run = this.#runs.get(ctx.runId);
        if (run !== undefined && run.trigger === "user" && typeof prompt === "string" && prompt) {
            run.purpose = prompt.slice(0, PURPOSE).toWellFormed();
        }
    }

    purposeOf(runId) {
        return this.run(runId).purpose;
    }

    /** The gate has answered a call of the turn with this decision. */
    answered(runId, id) {
        const run = this.#runs.get(runId);
        if (run !== undefined && id > run.answered) run.answered = id;
    }

    /** The model is asked again: it has seen all that was answered until now. */
    asked(runId) {
        const run = this.#runs.get(runId);
        if (run !== undefined) run.seen = run.answered;
    }

    /** The newest decision whose answer the model had seen when it made its calls; `undefined` if that is not known. */
    seenBy(runId) {
        return this.run(runId).seen || undefined;
    }
}
