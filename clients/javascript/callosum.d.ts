/**
 * The client of a Callosum gate. Names are those of the wire.
 *
 * Units: `deadline` is in milliseconds, every other duration in seconds; moments (`at`, `expires`,
 * `observingUntil`) are Unix seconds. Ids, tokens and `seq` are moments too, in microseconds: whole
 * numbers that a JavaScript number holds exactly.
 *
 * Every method throws `CallosumError` where the gate refuses the request (a 4xx), `GateUnavailable`
 * where it cannot be asked within the deadline, and the reason of `signal` where that is aborted.
 * A decision that says no is a value; only `guard()` throws it.
 */

/** How much harm a call can do: none, low, medium, high, critical. */
export type Tier = 0 | 1 | 2 | 3 | 4;

/** `allow` and `warn` proceed; after `confirm` the next attempt does; `ask` needs a person; `block` lasts. */
export type Verdict = "allow" | "warn" | "confirm" | "ask" | "block";

/** What stands in the way, in rising gravity. */
export type Kind = "recent" | "held" | "stale" | "unknown" | "opposed" | "duplicate";

/** Where an action stands in its life. */
export type State = "queued" | "asked" | "open" | "done" | "failed" | "cancelled" | "unknown";

/** How a call ended. `unknown`: it may or may not have happened. */
export type Outcome = "done" | "failed" | "cancelled" | "unknown";

/** What a call does to a key. */
export type Mode = "read" | "write" | "append";

/** What a journal entry records. */
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

/** A context key and what the call does to it. A name that ends in `/` covers every key it prefixes. */
export type Key = [name: string, mode: Mode];

/** The process that lives while a tool runs. */
export type Host = readonly [pid: number, started: number, machine: string];

/** What comes as JSON. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

// --- requests ----------------------------------------------------------------------------------

/** Who acts, where it is not who the client was made for. */
export interface Actor {
    /** The actor's name; with the optional session it is `instance/session`. */
    instance?: string;
    session?: string;
    /** Who shares a memory; "default" if nothing is said. */
    namespace?: string;
}

export interface Cancel {
    signal?: AbortSignal;
}

export interface Space extends Cancel {
    namespace?: string;
}

/** One tool call that is about to be made. Must be writable as JSON, in at most 5,000,000 bytes. */
export interface Call extends Actor {
    tool: string;
    action?: string;
    params?: object;
    /** The identity of the call: the same id with the same content is decided once. A new one if absent. */
    callId?: string;
    cwd?: string;
    /**
     * The worktree that `cwd` lies in: its uppermost folder, and a name for the repository that is the same from each
     * of its worktrees (the folder that holds the common `.git`). Without it `cwd` itself counts as the repository.
     */
    worktree?: { root: string; repository: string };
    /** The same of other folders in which the call uses git, by folder; null: it lies in no repository. */
    worktrees?: Record<string, { root: string; repository: string } | null>;
    /** The caller's home, an absolute path: `~` and `$HOME` in the params mean it. */
    home?: string;
    /** The homes of other users that the params name, by user: `~user` means them. */
    homes?: Record<string, string>;
    /** Whether a warning becomes a pause, for hosts that can show one only by not running the tool. */
    pause?: boolean;
    /** How long to wait while another session holds a key, in seconds, at most 60. */
    wait?: number;
    description?: string;
    schema?: object;
    annotations?: object;
    origin?: string;
    parent?: string;
    run?: string;
    continues?: string;
    /** The tool's own limit, in seconds. */
    timeout?: number;
    host?: Host;
    /** Whether the host can replace the params of the call by those of `Decision.params`. */
    rewrite?: boolean;
    /** The guarded run that the call belongs to, and which of its attempts this is (from 1). */
    taskId?: string;
    attempt?: number;
    /** The newest decision id whose answer the model had seen. */
    after?: number;
    /** Until when the client waits, for a gate on its machine, and for how many milliseconds: set by the client. */
    deadline?: string;
    timeoutMs?: number;
    /**
     * A commitment for the keys that the call writes: a verb (`accept`, `cancel`) or a word after `+` or `-`; what is
     * promised and to whom are only shown. `until` is in Unix seconds; more than 400 days ahead counts as 400 days.
     */
    commits?: { side: string; what?: string; to?: string; until?: number };
    /** The caller's own: nothing is decided by it, and the journal keeps a summary. */
    meta?: { [name: string]: Json };
    /** What the call does, in one line, where its params do not show it. */
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
    /** The oldest unreported one with this content. */
    | { tool: string; params?: object; action?: string };

/** An event for the stream: its type and its fields. */
export interface NewEvent {
    type: string;
    [field: string]: unknown;
}

// --- answers -----------------------------------------------------------------------------------

/** Evidence that another session (`own`: this one's own past) is in the way. */
export interface Conflict {
    kind: Kind;
    instance: string;
    tool: string;
    tier: Tier;
    key: string;
    id: number;
    state: State;
    /** How long ago, in seconds; where it is `running`, since it began. */
    age: number;
    /** When the lease runs out, in seconds from now. */
    expiresIn?: number;
    own?: boolean;
    /** Whether its outcome is not known yet, and its time not up. */
    running?: boolean;
    /** Of an `opposed`: what the other session decided ("accepted"), and what this call decides ("declines"). */
    decided?: string;
    decides?: string;
    /** Until when the other's commitment counts, in Unix seconds, and how that session described it. */
    until?: number;
    what?: string;
    /** What the other did, in one line, every piece of it in quotes. */
    summary?: string;
    /** What a person had asked the other session for. */
    purpose?: string;
}

/** An open action of tier 3 or 4; `token` is the fencing token, `ttl` for how many seconds it was given. */
export interface Lease {
    token: number;
    expires: number;
    ttl: number;
}

/** The answer to one call. */
export interface Decision {
    proceed: boolean;
    tier: Tier;
    contextKey: string | null;
    /** The action's, where the call may run, else what a person approves. 0 if the gate was not asked. */
    id: number;
    verdict: Verdict;
    contextKeys: string[];
    /** The rule that matched, "" if the call was judged by what it shows. */
    rule: string;
    /** At most ten, gravest first; `conflictCount` counts them all. */
    conflicts?: Conflict[];
    conflictCount?: number;
    /** The paragraph for the agent. */
    warning?: string;
    lease?: Lease;
    /** The verdict that stood before `observe` let the call pass. */
    observed?: Verdict;
    /** Whether this is the answer that this call id was given before. */
    repeated?: boolean;
    /** What has become of the action of a call id that was answered before. */
    state?: State;
    /** Whether the call runs with the text of other sessions merged into its own: `params` has it. */
    merged?: boolean;
    /** With what params an approved call is to run. Only if the call said `rewrite`. */
    params?: { [name: string]: Json };
    /** Whether the gate was away, and the client decided by the table of tiers. */
    fallback?: boolean;
    /** The call's, given or made by the client; it is not on the wire. */
    callId: string;
}

export interface LockResult {
    acquired: boolean;
    conflict?: Conflict;
    lease?: Lease;
    id?: number;
}

/** Whether it took effect; `note` says in words what was odd. */
export interface Report {
    ok: boolean;
    id?: number;
    state?: State;
    late?: boolean;
    note?: string;
    lease?: Lease;
    /** What the agent is to know of what it wrote: that another session's change was overwritten. */
    warning?: string;
}

/** A live lease, waiter, question or unknown. */
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

/** Live leases, and what was done lately, newest first. Lists that are empty may be absent. */
export interface Status {
    locks: Holding[];
    recentActions: RecentAction[];
    unknown?: Holding[];
    waiting?: Holding[];
    asked?: Holding[];
    observingUntil?: number;
    farewells?: Farewell[];
}

/** What a session is told of the others, the most important section first. */
export interface Brief {
    /** For the session's context; empty if there is nothing to tell. */
    text: string;
    /** About how long the text is. */
    tokens: number;
    sections: Section[];
    /** How many lines were left out. */
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
    /** Summarised. */
    params?: { [name: string]: Json };
    conflicts?: Conflict[];
    warning?: string;
    summary?: string;
    purpose?: string;
}

export interface Approvals {
    approvals: Approval[];
}

/** One line of the journal. */
export interface Entry {
    event: Event;
    session: string;
    /** Absent means "default". */
    namespace?: string;
    /** Its place and its moment. */
    seq?: number;
    /** The action it speaks of. */
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
    /** From where the next page goes on. */
    cursor: string;
}

/** An event of the stream. `data` is a text where it is no JSON. */
export interface StreamEvent {
    id: string;
    type: string;
    data: Json;
}

// --- the client --------------------------------------------------------------------------------

/** Tool name -> the highest tier it can have. */
export type FallbackTable = { readonly [tool: string]: number } | ReadonlyMap<string, number>;

export interface ClientOptions extends Actor {
    /** Default "http://127.0.0.1:7700". */
    url?: string | URL;
    token?: string;
    /** How long the gate has for an answer, repeats included, in milliseconds. Default 1000. */
    deadline?: number;
    /**
     * By what the client decides while the gate is away; asked of the gate once if absent. A tool that
     * is not in it counts as 3, and whatever runs commands (`bash`, `exec`, ...) as 3 at least.
     */
    fallback?: FallbackTable;
    /** Default `globalThis.fetch`. */
    fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

export declare class CallosumClient {
    /** Throws `TypeError` on options that cannot be used. Nothing is sent yet. */
    constructor(options?: ClientOptions);
    constructor(url: string | URL, instance?: string);

    /**
     * Decides a call before it runs. Repeated within the deadline under the same call id where the gate
     * does not answer, or not with a decision. A "no" is a value: look at `proceed`.
     *
     * If the gate stays away, a tool of tier 0 to 2 may run (`fallback: true`, `id: 0`); a graver one
     * throws `GateUnavailable`. So does any call where the gate is there but its store is not (`at` is
     * "store"): nobody decides in its stead.
     */
    intercept(call: Call, options?: Cancel): Promise<Decision>;

    /**
     * Decides a call, runs it if it may run, and reports how it ended. Returns what `run` returns.
     *
     * Throws `Blocked` where the gate says no, and what `run` throws: a timeout, an abort or a cut
     * connection is reported as `unknown`, anything else as `failed`; a result with an `error` is
     * `failed` too. While `run` runs, its lease is renewed. That a report did not get through is
     * written to `console.warn`, and harms nobody: the action becomes `unknown`.
     *
     * Without a session the process is the session (its pid and start), so that two runs of one program are two actors.
     *
     * The decision of a call that runs with a warning is handed to `warned` before the call runs; without `warned` the
     * warning is written to `console.warn`. What `warned` throws keeps the call from running.
     */
    guard<T>(
        call: Call,
        run: (decision: Decision) => T | PromiseLike<T>,
        options?: Cancel & { warned?: (decision: Decision) => unknown },
    ): Promise<T>;

    /**
     * Reports how an action ended. Give it the decision: it knows the actor, and works also if the gate
     * was away. A result with an `error` is `failed`, otherwise `outcome` says, default "done".
     *
     * By id it is repeated within the deadline; by key, or by tool and params, only where nothing came
     * of the first attempt for certain.
     */
    complete(what: Place, result?: unknown, options?: Actor & Cancel & { outcome?: Outcome }): Promise<Report>;

    /** Takes a lease of `ttl` seconds on a key without a tool call; `tier` is 3 (default) or 4. */
    lock(contextKey: string, options?: Actor & Cancel & { tier?: Tier; ttl?: number }): Promise<LockResult>;

    /** Frees this actor's leases on the key; with `force` (a person, named by `by`) all. */
    release(contextKey: string, options?: Actor & Cancel & { force?: boolean; by?: string }): Promise<Report>;

    /** Moves the end of a lease to `ttl` seconds from now. */
    renew(id: number, options?: Actor & Cancel & { ttl?: number }): Promise<Report>;

    /** Ends an `unknown` action: somebody looked, and it happened or it did not. */
    resolve(id: number, options: Space & { happened: boolean; by?: string; note?: string }): Promise<Report>;

    /** Shows live leases and recent actions, of one key or of all. */
    status(contextKey?: string, options?: Space): Promise<Status>;

    /**
     * Tells what the other sessions have in hand and did lately, as far as it matters to this one: on `keys`, on
     * what it has touched itself, on files below `cwd`. At most `budget` tokens long. It informs, it confirms
     * nothing.
     */
    brief(
        options?: Actor & Cancel & { keys?: readonly string[]; cwd?: string; budget?: number },
    ): Promise<Brief>;

    /** Lists the calls that wait for a person, of `session` (as the journal names it) or of all, oldest first. */
    approvals(options?: Space & { session?: string }): Promise<Approvals>;

    /** Lets a call that was asked or blocked run once. Needs an approver's token. */
    approve(id: number, options?: Space & { by?: string; channel?: string; note?: string }): Promise<Report>;

    /** Refuses a call that was asked; the agent reads `note`. Needs an approver's token. */
    deny(id: number, options?: Space & { by?: string; channel?: string; note?: string }): Promise<Report>;

    /** Reads a page of the journal; `wait` is how long to wait for entries where there are none yet. */
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
     * Follows the stream of events: `types` such as `safety.*`, all if absent. A cut connection is made
     * again, and goes on after the last event that was seen (`lastEventId` to begin with).
     *
     * Ends when the loop is left or `signal` is aborted, which is no error here.
     */
    events(
        options?: Space & { types?: readonly string[]; lastEventId?: string },
    ): AsyncGenerator<StreamEvent, void, void>;

    /** Sends events to the stream, under the client's name where they have none. Returns how many were taken. */
    emit(events: NewEvent | readonly NewEvent[], options?: Cancel): Promise<number>;

    /**
     * Journals at once what ran while the gate was away, and returns how many calls that were: for the
     * end of a program. By itself the client does so after its next successful request, a call without
     * a report after five minutes (it then counts as done, as everything of tiers 0 to 2). At most 1000
     * calls are kept, in memory; one that was sent and not acknowledged is sent again.
     */
    flush(): Promise<number>;
}

/** The gate refuses the request, or it cannot be sent as it is. */
export declare class CallosumError extends Error {
    constructor(message: string, options?: { status?: number; at?: string; cause?: unknown });
    /** The HTTP status; 0 if the gate has not seen the request. */
    readonly status: number;
    /** The field at fault, "" if it is none. */
    readonly at: string;
}

/** The gate cannot be asked, and this may not be done without it. */
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
    /** What the tool counts as; null if this was no call. */
    readonly tier: number | null;
    /** Under which id the call can be made again without being decided twice; null if this was none. */
    readonly callId: string | null;
    /**
     * A decision that may be in force although the gate could not confirm that it survives; null if there is none.
     * Do not run the tool; `complete({ id }, undefined, { outcome: "cancelled" })` takes the decision back.
     */
    readonly id: number | null;
}

/** A guarded call may not run now. `message` is the sentence for the agent. */
export declare class Blocked extends CallosumError {
    constructor(decision: Decision);
    readonly decision: Decision;
}
