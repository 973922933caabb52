/**
 * Handle one tool call from end to end: ask the gate before it runs and report its outcome afterwards.
 *
 *     trusted policy ── asks the gate ──> allowed: `open` ──> after_tool_call reports and forgets it
 *          │                                └─ a command in the background: until `process` says it ended
 *          └─ before_tool_call sees the same call a moment later and asks only if nobody has, or if its params
 *             were changed in between
 *
 * A call is identified by session, run and the provider's id, which alone is not unique. Blocked calls are remembered
 * too, because the host later reports them as errors.
 */

import { randomUUID } from "node:crypto";
import os from "node:os";
import path from "node:path";

import { Away, Refused, START } from "./gate.js";
import { Bounded, nameOf } from "./names.js";
import { backgroundOf, endedOf, outcomeOf } from "./outcome.js";
import { LONG, shortenedParams } from "./truncation.js";
import { goesOn, tierOf } from "./tiers.js";

const MOST = 5000;
/** Maximum length in characters of a file's text in a report: as much as the gate keeps a copy of. */
const FILE = 256_000;
/** Matches params that mention the caller's home or another user's home. */
const HOMES = /~|HOME/;
/** Tools that only lead to another call, which is classified itself. */
const WRAPPERS = new Set(["tool_call", "tool_search", "tool_describe", "tool_search_code"]);
/** Matches the id of a nested call, which contains the id of the outer call. */
const WITHIN = /^tool_search_code:(.+):[^:]*:\d+$/;
/** Milliseconds that a finished turn waits for reports that are still on their way. */
const GRACE = 5000;
/** Milliseconds between two checks of a background command, and after its end until its outcome is given up. */
const WATCH = 5000;
const UNASKED = 60_000;
/** Maximum interval in milliseconds between two renewals of a lease. */
const LONGEST = 24 * 3600 * 1000;
const LEASE = 300;

/** Return whether the host calls another tool through this one. Only the other one is classified. */
export function isWrapper(event) {
    return event.toolKind === "code_mode_exec" || WRAPPERS.has(event.toolName);
}

/** Return the sentence for a call that is blocked because the gate is unreachable. */
export function heldText(away, tool, tier) {
    const what = `"${String(tool).slice(0, 100)}" counts as tier ${tier} and does not run without it`;
    return `[Callosum] The gate is unreachable (${away}): ${what}. Reads continue; try again in a moment.`;
}

export class Calls {
    #link;
    #known = new Bounded(MOST, (call) => this.#forget(call));
    #background = new Bounded(MOST, (call) => this.#forget(call));
    #watching;
    #said = new Bounded(MOST, ({ session, text }) => this.#link.tell(session, text));

    constructor(link) {
        this.#link = link;
    }

    /** Return the calls that were let through and have no report yet, including those in the background. */
    get open() {
        const open = [...this.#known.values()].filter((call) => call.state === "open");
        return [...open, ...this.#background.values()];
    }

    /** Return the open call of this tool for which `matches` holds. */
    find(tool, matches) {
        return this.open.find((call) => call.tool === tool && matches(call));
    }

    /**
     * Answer a hook: `undefined` lets the call run, `{deny}` blocks it, `{params}` lets it run with these params.
     *
     * `seam` is "policy" or "hook". Does not throw.
     */
    async before(event, ctx, seam) {
        if (isWrapper(event)) return undefined;
        const key = keyOf(event, ctx);
        const written = JSON.stringify(event.params ?? {});
        const known = this.#known.get(key);
        if (seam === "hook" && known !== undefined) {
            if (known.written === written || known.rewritten === written) return known.answer;
            // The params changed after the decision, so this is another call.
            if (known.state === "open")
                await this.#report(known, { outcome: "cancelled", result: { note: "its params were changed" } });
        }
        const call = {
            key,
            written,
            tool: event.toolName,
            session: ctx.sessionKey ?? ctx.agentId,
            run: runOf(event, ctx),
            state: "asking",
        };
        this.#known.set(key, call);
        const { decision, deny, late } = await this.#ask(call, this.#wordsOf(event, ctx, written));
        call.late = late;
        if (deny !== undefined || decision?.proceed === false) {
            call.state = "denied";
            call.answer = { deny: deny ?? decision.warning ?? `[Callosum] ${decision.verdict}` };
            return call.answer;
        }
        call.state = "open";
        if (decision !== undefined) this.#opened(call, decision, event, ctx);
        // The end of the run did not interrupt the question: the gate may have let the call through by then.
        if (ctx.abortSignal?.aborted || call.givenUp) {
            await this.#report(call, { outcome: "cancelled", result: { note: "given up before it ran" } });
            return undefined;
        }
        return call.answer;
    }

    /** Return the call in the fields of the wire. */
    #wordsOf(event, ctx, written) {
        const { turns, who, process: host } = this.#link;
        const run = runOf(event, ctx);
        const parent = turns.parentOf(ctx.sessionKey);
        const direct = isDirect(event);
        return defined({
            ...who(ctx.sessionKey ?? ctx.agentId),
            tool: nameOf(event.toolName),
            params: written.length > LONG ? shortenedParams(event.params) : (event.params ?? {}),
            callId: event.toolCallId === undefined ? undefined : nameOf(`${run ?? "-"}:${event.toolCallId}`),
            dispatch: event.toolCallId === undefined ? undefined : randomUUID(),
            cwd: folderOf(event.params?.workdir, turns.cwdOf(run, ctx.sessionKey)),
            home: HOMES.test(written) ? os.homedir() : undefined,
            pause: true,
            rewrite: written.length <= LONG, // a call whose texts were cut runs with its own params
            run: run === undefined ? undefined : nameOf(run),
            parent: parent === undefined ? undefined : `${this.#link.settings.instance}/${nameOf(parent)}`,
            origin: turns.originOf(run, ctx.sessionKey),
            purpose: turns.purposeOf(run),
            after: turns.seenBy(run),
            // A direct call has no report, so its lease must not last as long as the gateway.
            host: direct ? undefined : host,
        });
    }

    async #ask(call, words) {
        const { gate, settings, turns } = this.#link;
        const tier = tierOf(words.tool, words.params, this.#link.table());
        // A call that may run without the gate does not wait, in a gateway, for a gate that is starting. Other calls
        // have no choice, and a short process (`openclaw agent exec`) would end before it could report what it did.
        const patience = this.#link.isGateway && goesOn(tier, settings.failMode) ? 0 : START;
        await this.#link.told();
        try {
            const decision = checked(await gate.ask("POST", "/intercept", words, { patience }));
            turns.answered(call.run, decision.id);
            this.#link.reached();
            return { decision };
        } catch (error) {
            if (error instanceof Refused) {
                if (error.status !== 401 && error.status !== 403) {
                    if (tier > 0) return { deny: `[Callosum] This call cannot be judged (${error.message}).` };
                    return { late: this.#link.late.add(words, tier, error.message) };
                }
                return this.#without(words, tier, `it refuses this host: ${error.message}`);
            }
            if (!(error instanceof Away)) gate.log(`a call could not be asked about: ${error.stack}`);
            return this.#without(words, tier, error.message, error.unsent !== true);
        }
    }

    /** Handle an unreachable gate. `asked`: the gate may have received the question, and may open an action in vain. */
    #without(words, tier, why, asked = false) {
        const runs = goesOn(tier, this.#link.settings.failMode);
        const late = runs ? this.#link.late.add(words, tier) : undefined;
        if (!runs && asked) this.#link.late.giveUp(words);
        this.#link.missed(why);
        return runs ? { late } : { deny: heldText(why, words.tool, tier) };
    }

    #opened(call, decision, event, ctx) {
        call.id = decision.id;
        call.shows = provesFile(event, decision) && this.#link.process !== undefined;
        if (decision.warning) this.#say(call, resultOf(ctx, event.toolCallId), decision.warning);
        if (decision.params) {
            call.rewritten = JSON.stringify(decision.params);
            call.answer = { params: decision.params };
        }
        if (decision.lease && !isDirect(event)) this.#renew(call, decision.lease);
    }

    #say({ session, run }, key, warning) {
        const before = this.#said.get(key);
        this.#said.set(key, { session, run, text: before ? `${before.text}\n\n${warning}` : warning });
    }

    /** Renew a lease each time a third of its duration is over. */
    #renew(call, lease) {
        const every = (Math.min(lease.ttl > 0 ? lease.ttl : LEASE, LEASE) * 1000) / 3;
        const ends = Date.now() + LONGEST;
        const again = async () => {
            if (call.state !== "open" || Date.now() > ends || call.gone !== undefined) return;
            try {
                const report = await this.#link.gate.ask("POST", "/renew", {
                    ...this.#link.who(call.session),
                    id: call.id,
                });
                if (!report.ok) return;
            } catch (error) {
                if (!(error instanceof Away)) return;
            }
            next();
        };
        const next = () => {
            call.timer = setTimeout(again, every);
            call.timer.unref?.();
        };
        next();
    }

    // --- After the call ---------------------------------------------------------------------------

    /** Handle a call that returned. Ignore blocked calls and calls that were never seen before. Does not throw. */
    async after(event, ctx) {
        if (isWrapper(event)) return;
        const key = keyOf(event, ctx);
        const call = this.#known.get(key);
        if (call !== undefined) {
            this.#known.delete(key);
            if (call.state === "asking")
                call.givenUp = true; // the run was given up while the gate was deciding
            else if (call.state === "open") await this.#cameBack(call, event);
        }
        if (event.toolName === "process") await this.#polled(event, ctx);
    }

    async #cameBack(call, event) {
        // The result of `process` about a running command is not a command itself.
        const running = call.tool === "process" ? undefined : backgroundOf(event);
        if (running === undefined) return this.#report(call, outcomeOf(event, call.shows ? FILE : undefined));
        this.#background.set(running, call);
        const { pid } = event.result.details;
        if (Number.isInteger(pid) && lives(pid)) call.pid = pid; // otherwise it runs elsewhere, or has just ended
        this.#watch();
    }

    /** Check regularly whether background commands still run, because not every session asks how they ended. */
    #watch() {
        if (this.#watching !== undefined || !this.#background.size) return;
        this.#watching = setTimeout(() => {
            this.#watching = undefined;
            for (const [name, call] of this.#background) {
                if (call.pid === undefined || (call.gone === undefined && lives(call.pid))) continue;
                call.gone ??= Date.now();
                if (Date.now() - call.gone < UNASKED) continue;
                this.#background.delete(name);
                this.#report(call, { outcome: "unknown", result: { note: "it has ended, and nobody asked how" } });
            }
            this.#watch();
        }, WATCH);
        this.#watching.unref?.();
    }

    /** Read what `process` says about background commands. */
    async #polled(event, ctx) {
        const details = event.result?.details;
        const { sessionId: named, action } = event.params ?? {};
        const listed = Array.isArray(details?.sessions) ? [...details.sessions] : [];
        const stopped = ["kill", "remove"].includes(action) && !event.error;
        if (named !== undefined)
            listed.push(stopped ? { sessionId: named, status: "killed" } : { ...details, sessionId: named });
        for (const one of listed) {
            const ended = endedOf(one);
            if (ended !== undefined) await this.ended(one.sessionId, ended, ctx.sessionKey);
        }
    }

    /** Handle the end of a background command. `name` is OpenClaw's name for it, or the beginning of that name. */
    async ended(name, { outcome, why }, sessionKey) {
        for (const [running, call] of this.#background) {
            if (
                running !== name &&
                !(sessionKey && call.session === sessionKey && name.length >= 6 && running.startsWith(name))
            )
                continue;
            this.#background.delete(running);
            await this.#report(call, {
                outcome,
                result: why === undefined ? { note: "ended in the background" } : { error: why },
            });
            return;
        }
    }

    /** Return, once, what the gate said about the calls behind one result. */
    saidOf(toolCallId, ctx) {
        const key = resultOf(ctx, toolCallId);
        const said = this.#said.get(key);
        this.#said.delete(key);
        return said?.text;
    }

    /**
     * End a turn: calls without a report get none soon, and texts that the model did not see come with the next turn.
     */
    over(runId) {
        if (!runId) return;
        for (const [key, { run, session, text }] of this.#said) {
            if (run !== runId) continue;
            this.#said.delete(key);
            this.#link.tell(session, text);
        }
        const timer = setTimeout(() => {
            for (const [key, call] of this.#known) {
                if (call.run !== runId) continue;
                this.#known.delete(key);
                if (call.state === "open")
                    this.#report(call, { outcome: "unknown", result: { note: "the turn ended without a report" } });
            }
        }, GRACE);
        timer.unref?.();
    }

    async #report(call, { outcome, result }) {
        this.#forget(call);
        call.state = "reported";
        if (call.late !== undefined) {
            this.#link.late.report(call.late, outcome ?? "failed");
            this.#link.reached();
            return;
        }
        if (call.id === undefined) return;
        const body = defined({ ...this.#link.who(call.session), id: call.id, outcome, result });
        try {
            const { warning } = await this.#link.gate.ask("POST", "/complete", body, { deadline: 10_000 });
            if (warning) this.#link.tell(call.session, warning);
        } catch (error) {
            if (error instanceof Away) this.#link.owe(body);
            else this.#link.gate.log(`how a call of ${call.tool} ended could not be reported: ${error.message}`);
        }
    }

    #forget(call) {
        clearTimeout(call.timer);
    }
}

function lives(pid) {
    try {
        process.kill(pid, 0);
        return true;
    } catch (error) {
        return error.code === "EPERM";
    }
}

/** Return whether a call reads a file, so that its full result shows the gate what the session has seen of it. */
function provesFile(event, decision) {
    return decision.tier === 0 && event.toolName === "read" && typeof event.params?.path === "string";
}

/** Return the key of a call's result. The result of a nested call is part of the outer call's. */
function resultOf(ctx, toolCallId) {
    const outer = WITHIN.exec(toolCallId ?? "");
    return JSON.stringify([ctx.sessionKey ?? "", outer?.[1] ?? toolCallId ?? ""]);
}

function runOf(event, ctx) {
    return event.runId ?? ctx.runId;
}

/** Return the folder of a call: the one that it names, which may be relative to its session's. */
function folderOf(named, cwd) {
    if (typeof named !== "string" || named === "") return cwd;
    if (path.isAbsolute(named)) return named;
    if (named === "~" || named.startsWith("~/")) return path.join(os.homedir(), named.slice(1));
    return cwd === undefined || named.startsWith("~") ? undefined : path.join(cwd, named);
}

function keyOf(event, ctx) {
    return JSON.stringify([ctx.sessionKey ?? "", runOf(event, ctx) ?? "", event.toolCallId ?? ctx.toolCallId ?? ""]);
}

/** Return whether a person's program calls the tool through the gateway, so that no report follows. */
function isDirect(event) {
    return event.runId === undefined && String(event.toolCallId ?? "").startsWith("http-");
}

const PROCEEDS = { allow: true, warn: true, confirm: false, ask: false, block: false };

/** Check a decision strictly where it lets a tool run: a contradictory answer is no decision. */
function checked(answer) {
    if (PROCEEDS[answer?.verdict] === answer?.proceed && Number.isSafeInteger(answer?.id)) return answer;
    throw new Away("its answer makes no sense");
}

export function defined(fields) {
    return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
