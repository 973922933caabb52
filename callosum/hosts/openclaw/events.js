/** Emit events for the gate's corpus: input, the model of a turn, the answers of models, compactions. */

import { nameOf } from "./names.js";
import { shortened } from "./truncation.js";

const MOST = 1000;
const PAGE = 100;
const PAUSE = 200;
/** Maximum length in characters of an event's text; the gate shortens and redacts it again. */
const TEXT = 1000;
const WRAPPERS = new Set(["tool_call", "tool_search", "tool_describe", "tool_search_code"]);

export class Events {
    #link;
    #waiting = [];
    #timer = null;
    #compacting = new Map();
    #routed = new Map();

    constructor(link) {
        this.#link = link;
    }

    /** Emit something soon, together with other events. Events are lost while the gate is unreachable. */
    tell(type, sessionKey, fields) {
        this.#waiting.push(this.#event(type, sessionKey, fields));
        if (this.#waiting.length > MOST) this.#waiting.shift();
        if (this.#timer !== null) return;
        this.#timer = setTimeout(() => this.#flush(), PAUSE);
        this.#timer.unref?.();
    }

    #event(type, sessionKey, fields) {
        const { settings } = this.#link;
        const instance = sessionKey ? `${settings.instance}/${nameOf(sessionKey)}` : settings.instance;
        const namespace = settings.namespace === undefined ? {} : { namespace: settings.namespace };
        return { type, instance, at: Date.now() / 1000, ...namespace, ...fields };
    }

    async #flush() {
        this.#timer = null;
        while (this.#waiting.length) await this.#send(this.#waiting.splice(0, PAGE));
    }

    async #send(events) {
        try {
            await this.#link.gate.ask("POST", "/events", events, { deadline: 5000 });
        } catch {
            // An event may be lost: the gate needs none of them for a decision.
        }
    }

    // --- Hooks ------------------------------------------------------------------------------------

    received(event, ctx) {
        const conversation = ctx.conversationId ?? event.from ?? "";
        this.tell("input.received", ctx.sessionKey ?? event.sessionKey, {
            content: cut(event.content),
            channelId: String(ctx.channelId ?? ""),
            conversationId: String(conversation),
        });
    }

    /** Handle the start of a turn that no message caused. */
    prompted(event, ctx) {
        this.tell("input.received", ctx.sessionKey, {
            content: cut(event.prompt),
            channelId: String(ctx.messageProvider ?? ctx.trigger ?? "openclaw"),
            conversationId: String(ctx.sessionKey ?? ""),
        });
    }

    /** Emit the model of a turn, once per turn. */
    routed({ provider, model }, ctx) {
        if (this.#routed.get(ctx.sessionKey) === ctx.runId) return;
        if (this.#routed.size > MOST) this.#routed.clear();
        this.#routed.set(ctx.sessionKey, ctx.runId);
        this.tell("input.routed", ctx.sessionKey, { provider: String(provider), model: String(model) });
    }

    answered({ provider, model, usage }, sessionKey) {
        const parts = ["input", "output", "cacheRead", "cacheWrite"].map((name) => usage?.[name] ?? 0);
        const context = Math.round(parts[0] + parts[2] + parts[3]);
        const tokens = Math.round(usage?.totalTokens ?? usage?.total ?? parts.reduce((sum, part) => sum + part, 0));
        this.tell("llm.response", sessionKey, {
            provider: String(provider),
            model: String(model),
            tokens: tokens > 0 ? tokens : 0,
            ...(context > 0 ? { context } : {}),
        });
    }

    failed(event, sessionKey) {
        const error = event.failureKind ?? event.errorCategory ?? "error";
        this.tell("llm.error", sessionKey, {
            provider: String(event.provider),
            error: String(error),
            willRetry: event.failureKind !== "aborted",
        });
    }

    compacting(event, ctx) {
        if (this.#compacting.size > MOST) this.#compacting.clear();
        this.#compacting.set(ctx.sessionKey, event.tokenCount);
    }

    compacted(event, ctx) {
        const before = this.#compacting.get(ctx.sessionKey);
        this.#compacting.delete(ctx.sessionKey);
        if (before === undefined && event.tokenCount === undefined) return;
        const after = Math.round(event.tokenCount ?? 0);
        this.tell("context.trimmed", ctx.sessionKey, {
            before: Math.round(before ?? after),
            after,
            dropped: Math.max(0, Math.round(event.compactedCount ?? 0)),
        });
    }

    /** Emit a model's answer when it is written, before its calls are decided, so that it comes first. */
    written(message, sessionKey) {
        if (message?.role !== "assistant" || !Array.isArray(message.content)) return;
        if (message.usage) this.answered(message, sessionKey);
        const run = this.#link.turns.session(sessionKey ?? "").run;
        const calls = message.content
            .filter((part) => part?.type === "toolCall" && typeof part.name === "string")
            .filter((part) => !WRAPPERS.has(part.name) && part.arguments?.code === undefined)
            .map((part) => ({
                name: nameOf(part.name),
                args: shortened(part.arguments ?? {}, TEXT),
                callId: nameOf(`${run ?? "-"}:${part.id}`),
            }));
        if (calls.length) this.#send([this.#event("tool.parsed", sessionKey, { calls })]);
    }
}

function cut(text) {
    return String(text ?? "").slice(0, TEXT);
}
