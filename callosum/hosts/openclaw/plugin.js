/** Connect the hooks of OpenClaw to their handlers. */

import { heldText } from "./calls.js";
import { START } from "./gate.js";
import { linkOf } from "./shared.js";
import { endedOf } from "./outcome.js";
import { execFolder } from "./machine.js";
import { methods, passing, PREFIX } from "./routes.js";
import { settingsOf } from "./settings.js";

/** Milliseconds that OpenClaw waits for a hook that asks the gate; longer than the gate needs to start. */
const PATIENT = START + 10_000;
/** Priority after all other hooks, whose refusals need no question to the gate. */
const LAST = -1000;
const EXEC_ENDED = /\bExec (?:completed|failed|finished) \(([\w-]{3,64}), (?:code (-?\d+)|signal (\w+))\)/g;

/** Register everything. Throws if OpenClaw's interface differs from the expected one. */
export function wire(api) {
    const log = (text) => api.logger?.warn?.(`[callosum] ${text}`);
    const settings = settingsOf(api.pluginConfig ?? {});
    const link = linkOf(settings, log);
    const { calls, deliveries, events, turns } = link;
    turns.works(execFolder());
    /** Register a listener whose failure must not affect anything. */
    const heard = (name, handler) => async (event, ctx) => {
        try {
            await handler(event ?? {}, ctx ?? {});
        } catch (error) {
            log(`${name}: ${error.stack ?? error}`);
        }
    };
    /**
     * Register a hook that other versions of OpenClaw may lack. Without it something is unknown, but nothing is
     * ungated.
     */
    const hook = (name, handler, options) => attempt(name, () => api.on(name, handler, options));
    const listen = (name, handler) => hook(name, heard(name, handler));
    const attempt = (what, register) => {
        try {
            register();
        } catch (error) {
            log(`${what} cannot be used in this OpenClaw: ${error.message}`);
        }
    };
    const judge = async (event, ctx, seam) => {
        try {
            return await calls.before(event, ctx, seam);
        } catch (error) {
            log(`${seam}: ${error.stack ?? error}`);
            return { deny: heldText(`the plugin failed: ${error.message}`, event.toolName, 3) };
        }
    };

    // --- Tool calls -------------------------------------------------------------------------------
    const policy = {
        id: "callosum",
        description: "Asks the Callosum gate whether the call conflicts with another session.",
        async evaluate(event, ctx) {
            const answer = await judge(event, ctx ?? {}, "policy");
            return (
                answer &&
                (answer.deny === undefined ? { params: answer.params } : { allow: false, reason: answer.deny })
            );
        },
    };
    attempt("a trusted tool policy", () => api.registerTrustedToolPolicy(policy)); // otherwise the hook gates
    const before = async (event, ctx) => {
        const answer = await judge(event, ctx ?? {}, "hook");
        return (
            answer &&
            (answer.deny === undefined ? { params: answer.params } : { block: true, blockReason: answer.deny })
        );
    };
    api.on("before_tool_call", before, { priority: LAST, timeoutMs: PATIENT });
    api.on(
        "after_tool_call",
        heard("after_tool_call", (event, ctx) => calls.after(event, ctx)),
    );

    /** Add what the gate says about a call to the call's result. */
    const withWarning = ({ toolCallId, result }, ctx) => {
        const said = calls.saidOf(toolCallId, ctx ?? {});
        if (said === undefined || !Array.isArray(result?.content)) return undefined;
        return { result: { ...result, content: [...result.content, { type: "text", text: said }] } };
    };
    attempt("a change of tool results", () =>
        api.registerAgentToolResultMiddleware(withWarning, { runtimes: ["openclaw"] }),
    ); // otherwise it comes with the next turn

    // --- Turns ------------------------------------------------------------------------------------
    const begun = (event, ctx) => {
        const first = turns.seen(ctx);
        turns.prompted(ctx, event.prompt);
        for (const [, name, code, signal] of first && ctx.trigger === "heartbeat"
            ? String(event.prompt ?? "").matchAll(EXEC_ENDED)
            : []) {
            const ended = endedOf({
                status: "completed",
                exitCode: code === undefined ? undefined : Number(code),
                exitSignal: signal,
            });
            calls.ended(name, ended, ctx.sessionKey);
        }
        return first;
    };
    listen("before_model_resolve", (event, ctx) => {
        if (begun(event, ctx) && (ctx.trigger !== "user" || !turns.originOf(ctx.runId))) events.prompted(event, ctx);
    });
    listen("llm_input", (event, ctx) => events.routed(event, ctx));
    listen("model_call_started", (event, ctx) => {
        turns.seen({ ...ctx, runId: event.runId, sessionKey: event.sessionKey ?? ctx.sessionKey });
        turns.asked(event.runId);
    });
    listen("model_call_ended", (event, ctx) => {
        if (event.outcome === "error") events.failed(event, event.sessionKey ?? ctx.sessionKey);
    });
    // OpenClaw does not wait here, so the handler must not return a promise.
    hook("before_message_write", (event, ctx) => {
        try {
            events.written(event?.message, ctx?.sessionKey);
        } catch (error) {
            log(`before_message_write: ${error.stack ?? error}`);
        }
    });
    listen("agent_end", (event, ctx) => calls.over(ctx.runId ?? event.runId));
    listen("before_compaction", (event, ctx) => events.compacting(event, ctx));
    listen("after_compaction", (event, ctx) => events.compacted(event, ctx));
    listen("subagent_spawned", (event, ctx) => turns.spawned(event.childSessionKey, ctx.requesterSessionKey));
    listen("cron_changed", (event) => event.action === "started" && turns.fired(event.jobId, event.runAtMs));
    listen("message_received", (event, ctx) => {
        const message = event.messageId ?? ctx.messageId;
        const conversation = ctx.conversationId ?? event.from;
        turns.received(ctx.sessionKey ?? event.sessionKey, { channel: ctx.channelId, conversation, message });
        events.received(event, ctx);
    });
    hook("before_prompt_build", async (event, ctx) => {
        try {
            begun(event, ctx);
            const text = ctx.sessionKey ? await link.before(ctx.sessionKey, ctx.workspaceDir) : "";
            return text ? { prependContext: text } : undefined;
        } catch (error) {
            log(`before_prompt_build: ${error.stack ?? error}`);
            return undefined;
        }
    });

    // --- Deliveries -------------------------------------------------------------------------------
    if (settings.deliveries) {
        for (const [name, method] of [
            ["reply_payload_sending", "payload"],
            ["message_sending", "sending"],
        ]) {
            const gate = async (event, ctx) => {
                try {
                    return await deliveries[method](event, ctx ?? {});
                } catch (error) {
                    log(`${name}: ${error.stack ?? error}`);
                    return { cancel: true };
                }
            };
            hook(name, gate, { priority: LAST, timeoutMs: PATIENT });
        }
        listen("message_sent", (event, ctx) => deliveries.sent(event, ctx));
    }

    // --- Gateway ----------------------------------------------------------------------------------
    const started = (event, ctx) => {
        turns.works(ctx.workspaceDir);
        link.live();
    };
    api.on("gateway_start", heard("gateway_start", started));
    listen("gateway_stop", () => link.rest());
    for (const [name, method] of Object.entries(methods(link))) {
        attempt(name, () => api.registerGatewayMethod(name, method, { scope: "operator.read" }));
    }
    attempt(PREFIX, () =>
        api.registerHttpRoute({ path: PREFIX, auth: "gateway", match: "prefix", handler: passing(link) }),
    );
    return link;
}
