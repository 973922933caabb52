/**
 * The client of a Callosum gate. Names are those of the wire.
 *
 * Units: `deadline` is in milliseconds, every other duration in seconds; moments (`at`, `expires`,
 * `observingUntil`) are Unix seconds. Ids, tokens and `seq` are moments too, in microseconds: whole
 * numbers that a JavaScript number holds exactly.
 *
 * Every method throws `CallosumError` if the gate refuses the request (a 4xx), `GateUnavailable`
 * if it is unreachable within the deadline, and the reason of `signal` if that is aborted.
 * A decision that says no is a value; only `guard()` throws it.
 */

/** How much harm a call can do: none, low, medium, high, critical. */
export type Tier = 0 | 1 | 2 | 3 | 4;

/** `allow` and `warn` let the call run; `confirm` lets a repeated call run; `ask` needs a person; `block` lasts. */
export type Verdict = "allow" | "warn" | "confirm" | "ask" | "block";

/** Kinds of conflicts, from mildest to gravest. */
export type Kind = "recent" | "held" | "stale" | "unknown" | "opposed" | "duplicate";

/** States of an action. */
export type State = "queued" | "asked" | "open" | "done" | "failed" | "cancelled" | "unknown";

/** How a call ended. `unknown`: it may or may not have happened. */
export type Outcome = "done" | "failed" | "cancelled" | "unknown";

/** How a call affects a key. */
export type Mode = "read" | "write" | "append";

/** Kinds of journal entries. */
export type Event =
    | "intercept"
    | "complete"
    | "lock"
    | "release"
    | "renew"
    | "lapse"
    | "resolve"
    | "approve"
    | "deny"
    | "queue"
    | "observe"
    | "late"
    | "refuse" | "host";

/** A context key and how the call affects it. A name that ends in `/` covers every key that starts with it. */
export type Key = [name: string, mode: Mode];

/** The process that stays alive while a tool runs. */
export type Host = readonly [pid: number, started: number, machine: string];

/** Any value of JSON. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

// --- Requests ----------------------------------------------------------------------------------

/** The actor, if it differs from the one that the client was made for. */
export interface Actor {
    /** The actor's name; with the optional session it is `instance/session`. */
    instance?: string;
    session?: string;
    /** Sessions of one namespace share a memory. Default "default". */
    namespace?: string;
}

export interface Cancel {
    signal?: AbortSignal;
}

export interface Space extends Cancel {
    namespace?: string;
}

/** One tool call that a session wants to make. It must be JSON of at most 5,000,000 bytes. */
export interface Call extends Actor {
    tool: string;
    action?: string;
    params?: object;
    /** Identity of the call: what is over does not run again, what is open does not start twice. New if absent. */
    callId?: string;
    /** This run of the call, which gets the same answer each time it asks. A new one for each request if absent. */
    dispatch?: string;
    cwd?: string;
    /**
     * The worktree that contains `cwd`: its top folder, and a name for the repository that is the same in each
     * of its worktrees (the folder that holds the common `.git`). Without it `cwd` itself counts as the repository.
     */
    worktree?: { root: string; repository: string };
    /** Worktrees of other folders in which the call uses git, by folder; null: the folder is in no repository. */
    worktrees?: Record<string, { root: string; repository: string } | null>;
    /** The caller's home, an absolute path: the meaning of `~` and `$HOME` in the params. */
    home?: string;
    /** Homes of other users that the params name, by user: the meaning of `~user`. */
    homes?: Record<string, string>;
    /** Whether a warning becomes a pause, for hosts that can show one only by not running the tool. */
    pause?: boolean;
    /** Seconds to wait while another session holds a key, at most 60. */
    wait?: number;
    description?: string;
    schema?: object;
    annotations?: object;
    origin?: string;
    parent?: string;
    run?: string;
    continues?: string;
    /** The tool's own time limit, in seconds. */
    timeout?: number;
    host?: Host;
    /** Whether the host can run the call with other params, those of `Decision.params`. */
    rewrite?: boolean;
    /** The guarded run that the call belongs to, and the number of the attempt (from 1). */
    taskId?: string;
    attempt?: number;
    /** The newest decision id whose answer the model had seen when it made the call. */
    after?: number;
    /** How long the client waits, for a gate on its machine and for any other gate. Set by the client. */
    deadline?: string;
    timeoutMs?: number;
    /**
     * A commitment for the keys that the call writes. `side` is a verb (`accept`, `cancel`) or a word after `+` or `-`;
     * what is promised, and to whom, are only shown. `until` is in Unix seconds; over 400 days counts as 400.
     */
    commits?: { side: string; what?: string; to?: string; until?: number };
    /** Belongs to the caller: the gate decides nothing by it, and the journal keeps a summary. */
    meta?: { [name: string]: Json };
    /** What the call does, in one line, if its params do not show it. */
    summary?: string;
    /** The prompt, typed by a person, that the call serves. */
    purpose?: string;
}

/** How a report finds its action: by the decision or its id, else by tool and params, else by key. */
export type Place =
    | Decision
    | { id: number }
    /** The newest open action of this actor on the key; null: the newest one without a key. */
    | { contextKey: string | null }
    /** The oldest unreported action with this content. */
    | { tool: string; params?: object; action?: string };

/** An event for the stream: its type and its fields. */
export interface NewEvent {
    type: string;
    [field: string]: unknown;
}

// --- Answers -----------------------------------------------------------------------------------

/** Evidence that another session (`own`: this one's own past) is in the way. */
export interface Conflict {
    kind: Kind;
    instance: string;
    tool: string;
    tier: Tier;
    key: string;
    id: number;
    state: State;
    /** Seconds since the other session acted, or since it began if the action is `running`. */
    age: number;
    /** Seconds until the lease ends. */
    expiresIn?: number;
    own?: boolean;
    /** Whether its outcome is not known yet and its time is not up. */
    running?: boolean;
    /** For `opposed`: what the other session decided ("accepted"), and what this call decides ("declines"). */
    decided?: string;
    decides?: string;
    /** When the other session's commitment stops counting, in Unix seconds, and that session's description of it. */
    until?: number;
    what?: string;
    /** What the action did, in one line, with every piece of it in quotes. */
    summary?: string;
    /** What a person had asked the other session to do. */
    purpose?: string;
}

/** The lease of an open action of tier 3 or 4; `token` is the fencing token, `ttl` its length in seconds. */
export interface Lease {
    token: number;
    expires: number;
    ttl: number;
}

/** The gate's decision on one call. */
export interface Decision {
    proceed: boolean;
    tier: Tier;
    contextKey: string | null;
    /** The action's id if the call may run, otherwise the id that a person approves. 0 if the gate was not asked. */
    id: number;
    verdict: Verdict;
    contextKeys: string[];
    /** The rule that matched, "" if the call was classified by its name and params. */
    rule: string;
    /** At most ten, gravest first; `conflictCount` counts them all. */
    conflicts?: Conflict[];
    conflictCount?: number;
    /** The paragraph for the agent. */
    warning?: string;
    lease?: Lease;
    /** The verdict before observe mode let the call run. */
    observed?: Verdict;
    /** Whether this repeats the answer that the call id got before. */
    repeated?: boolean;
    /** Current state of the action, if the call id was answered before. */
    state?: State;
    /** Whether time alone may let the same call through, and the seconds after which asking again makes sense. */
    retryable?: boolean;
    retryAfter?: number;
    /** Whether the call runs with another session's changes merged into its text, which `params` holds. */
    merged?: boolean;
    /** The params with which the call must run. Only if the call set `rewrite`. */
    params?: { [name: string]: Json };
    /** Whether the gate was unreachable and the client decided by the table of tiers. */
    fallback?: boolean;
    /** The call's id, given or made by the client; it is not on the wire. */
    callId: string;
}

export interface LockResult {
    acquired: boolean;
    conflict?: Conflict;
    lease?: Lease;
    id?: number;
}

/** Whether it took effect; `note` explains anything unusual. */
export interface Report {
    ok: boolean;
    id?: number;
    state?: State;
    late?: boolean;
    note?: string;
    lease?: Lease;
    /** A paragraph for the agent: its write has overwritten another session's change. */
    warning?: string;
}

/** A live lease, waiter, question or unknown action. */
export interface Holding {
    contextKey: string | null;
    instance: string;
    tool: string;
    tier: Tier;
    state: State;
    id: number;
    token: number;
    at: number;
    expires: number;
    lock?: boolean;
    approved?: boolean;
    summary?: string;
}

export interface RecentAction {
    contextKey: string | null;
    instance: string;
    tool: string;
    tier: Tier;
    state: State;
    id: number;
    at: number;
    /** Absent means true. */
    reported?: boolean;
    summary?: string;
}

/** A session that ended, with its last answer as a summary of what it did. */
export interface Farewell {
    instance: string;
    at: number;
    summary: string;
}

/** Live leases, and recent actions, newest first. Empty lists may be absent. */
export interface Status {
    locks: Holding[];
    recentActions: RecentAction[];
    unknown?: Holding[];
    waiting?: Holding[];
    asked?: Holding[];
    observingUntil?: number;
    farewells?: Farewell[];
}

/** A summary of the other sessions, with the most important section first. */
export interface Brief {
    /** For the session's context; empty if there is nothing to report. */
    text: string;
    /** Approximate length of the text. */
    tokens: number;
    sections: Section[];
    /** Number of lines that were left out. */
    trimmed: number;
}

export interface Section {
    title: string;
    lines: string[];
}

/** A call that waits for a person. */
export interface Approval {
    id: number;
    instance: string;
    tool: string;
    tier: Tier;
    contextKey: string | null;
    at: number;
    expires: number;
    rule?: string;
    /** A summary of the params. */
    params?: { [name: string]: Json };
    conflicts?: Conflict[];
    warning?: string;
    summary?: string;
    purpose?: string;
}

export interface Approvals {
    approvals: Approval[];
}

/** One entry of the journal. */
export interface Entry {
    event: Event;
    session: string;
    /** Absent means "default". */
    namespace?: string;
    /** Its position and its moment. */
    seq?: number;
    /** The action that the entry is about. */
    action?: number;
    tool?: string;
    tier?: Tier;
    verdict?: Verdict;
    rule?: string;
    run?: string;
    keys?: Key[];
    outcome?: Outcome;
    body?: { [name: string]: Json };
}

export interface JournalPage {
    entries: Entry[];
    /** The cursor of the next page. */
    cursor: string;
}

/** An event of the stream. `data` is a string if it is not JSON. */
export interface StreamEvent {
    id: string;
    type: string;
    data: Json;
}

// --- Client ------------------------------------------------------------------------------------

/** Tool name -> the highest tier it can have. */
export type FallbackTable = { readonly [tool: string]: number } | ReadonlyMap<string, number>;

export interface ClientOptions extends Actor {
    /** Default "http://127.0.0.1:7700". */
    url?: string | URL;
    token?: string;
    /** Milliseconds in which the gate must answer, repeated requests included. Default 1000. */
    deadline?: number;
    /**
     * The table by which the client decides if the gate is unreachable; fetched from the gate once if absent. A tool
     * that is not listed counts as tier 3, and a tool that runs commands (`bash`, `exec`, ...) as at least 3.
     */
    fallback?: FallbackTable;
    /** Default `globalThis.fetch`. */
    fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

export declare class CallosumClient {
    /** Throws `TypeError` on invalid options. Sends nothing. */
    constructor(options?: ClientOptions);
    constructor(url: string | URL, instance?: string);

    /**
     * Decide a call before it runs. The request is repeated within the deadline under the same call id if the gate
     * does not answer, or not with a decision. A "no" is a value: check `proceed`.
     *
     * If the gate stays unreachable, a tool of tier 0 to 2 may run (`fallback: true`, `id: 0`); for a higher tier
     * it throws `GateUnavailable`. So does any call if the gate answers but its store is unreachable (`at` is
     * "store"): the client does not decide in its place.
     */
    intercept(call: Call, options?: Cancel): Promise<Decision>;

    /**
     * Decide a call, run it if it may run, and report how it ended. Returns the result of `run`.
     *
     * Throws `Blocked` if the decision is no, and the exception of `run`: a timeout, an abort or a cut
     * connection is reported as `unknown`, anything else as `failed`; a result with an `error` is
     * `failed` too. While `run` runs, its lease is renewed. A report that fails is
     * written to `console.warn`, and is harmless: the action becomes `unknown`.
     *
     * Without a session the process is the session (its pid and start), so that two runs of one program are two actors.
     *
     * A warning pauses the call. A retry confirms nothing; `confirm` takes the id of the decision whose warning was
     * read. With `pause: false` the call runs, and its decision is passed to `warned` before it does; without `warned`
     * the warning is written to `console.warn`. An exception of `warned` keeps the call from running.
     */
    guard<T>(
        call: Call,
        run: (decision: Decision) => T | PromiseLike<T>,
        options?: Cancel & { warned?: (decision: Decision) => unknown; pause?: boolean; confirm?: number },
    ): Promise<T>;

    /**
     * Report how an action ended. Pass the decision: it holds the actor, and also works if the gate
     * was unreachable. A result with an `error` is `failed`, otherwise `outcome` counts, by default "done".
     *
     * A report by id is repeated within the deadline; one by key, or by tool and params, only if the first attempt
     * certainly had no effect.
     */
    complete(what: Place, result?: unknown, options?: Actor & Cancel & { outcome?: Outcome }): Promise<Report>;

    /** Take a lease of `ttl` seconds on a key without a tool call; `tier` is 3 (default) or 4. */
    lock(contextKey: string, options?: Actor & Cancel & { tier?: Tier; ttl?: number }): Promise<LockResult>;

    /** Release this actor's leases on the key; with `force` (a person, named by `by`), all leases. */
    release(contextKey: string, options?: Actor & Cancel & { force?: boolean; by?: string }): Promise<Report>;

    /** Move the end of a lease to `ttl` seconds from now. */
    renew(id: number, options?: Actor & Cancel & { ttl?: number }): Promise<Report>;

    /** End an `unknown` action after a check showed that it happened, or that it did not. */
    resolve(id: number, options: Space & { happened: boolean; by?: string; note?: string }): Promise<Report>;

    /** Return live leases and recent actions, on one key or on all. */
    status(contextKey?: string, options?: Space): Promise<Status>;

    /**
     * Return what other sessions are doing and did recently, as far as it matters to this one: on `keys`, on
     * what it has touched itself, on files below `cwd`. At most `budget` tokens long. It is information and confirms
     * no call.
     */
    brief(
        options?: Actor & Cancel & { keys?: readonly string[]; cwd?: string; budget?: number },
    ): Promise<Brief>;

    /** List the calls that wait for a person, of `session` (as the journal names it) or of all, oldest first. */
    approvals(options?: Space & { session?: string }): Promise<Approvals>;

    /** Let a call with verdict ask or block run once. Needs an approver's token. */
    approve(id: number, options?: Space & { by?: string; channel?: string; note?: string }): Promise<Report>;

    /** Refuse a call with verdict ask; the agent reads `note`. Needs an approver's token. */
    deny(id: number, options?: Space & { by?: string; channel?: string; note?: string }): Promise<Report>;

    /** Read a page of the journal; `wait` is the number of seconds to wait if there are no new entries. */
    journal(
        options?: Space & {
            cursor?: string;
            limit?: number;
            session?: string;
            contextKey?: string;
            newest?: boolean;
            wait?: number;
        },
    ): Promise<JournalPage>;

    /**
     * Follow the stream of events: `types` such as `safety.*`, all if absent. A cut connection is made
     * again, and continues after the last event that was received (`lastEventId` to begin with).
     *
     * Ends when the loop is left or `signal` is aborted, which is not an error here.
     */
    events(
        options?: Space & { types?: readonly string[]; lastEventId?: string },
    ): AsyncGenerator<StreamEvent, void, void>;

    /** Send events to the stream, under the client's name if they have none. Returns how many were accepted. */
    emit(events: NewEvent | readonly NewEvent[], options?: Cancel): Promise<number>;

    /**
     * Journal at once what ran while the gate was unreachable, and return the number of calls: for the
     * end of a program. The client also does so by itself after its next successful request, for a call without
     * a report after five minutes (it then counts as done, like everything of tiers 0 to 2). At most 1000
     * calls are kept, in memory; one that was sent and not acknowledged is sent again.
     */
    flush(): Promise<number>;
}

/** The gate refused the request, or the request cannot be sent. */
export declare class CallosumError extends Error {
    constructor(message: string, options?: { status?: number; at?: string; cause?: unknown });
    /** The HTTP status; 0 if the gate has not received the request. */
    readonly status: number;
    /** The field at fault, "" if there is none. */
    readonly at: string;
}

/** The gate is unreachable, and this may not be done without it. */
export declare class GateUnavailable extends CallosumError {
    constructor(
        message: string,
        options?: {
            status?: number;
            at?: string;
            tier?: number | null;
            callId?: string | null;
            id?: number | null;
            cause?: unknown;
        },
    );
    /** The tier that the tool counts as; null if this was not a call. */
    readonly tier: number | null;
    /** The id under which the call can be repeated without being decided twice; null if this was not a call. */
    readonly callId: string | null;
    /**
     * A decision that may be in force although the gate could not confirm that it is durable; null if there is none.
     * Do not run the tool; `complete({ id }, undefined, { outcome: "cancelled" })` cancels the decision.
     */
    readonly id: number | null;
}

/** A guarded call may not run now. `message` is the sentence for the agent. */
export declare class Blocked extends CallosumError {
    constructor(decision: Decision);
    readonly decision: Decision;
    readonly retryable: boolean;
    readonly retryAfter: number | null;
}
