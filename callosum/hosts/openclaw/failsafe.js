/**
 * Replace the plugin if it could not be set up. A plugin that throws would leave the gateway ungated.
 *
 * Only reads run, and the gate is told once that a gateway lives here. No heartbeat follows, so the gate notices the
 * silence and raises `health.critical`.
 */

import { beatOf } from "./shared.js";
import { Gate } from "./gate.js";
import { settingsOf } from "./settings.js";

const READS = new Set(
    "read ls find grep memory_search memory_get session_status sessions_list agents_list update_plan".split(" "),
);
const AGAIN = 5000;

export function standIn(api, error) {
    const config = api.pluginConfig ?? {};
    const why = `[Callosum] The plugin could not be set up (${String(error?.message ?? error).slice(0, 300)}).`;
    const held = (tool) => config.failMode !== "open" && !READS.has(tool);
    const reason = (tool) =>
        `${why} Until that is mended only reading goes on: "${String(tool).slice(0, 100)}" does not run.`;
    const attempt = (register) => {
        try {
            register();
        } catch (another) {
            api.logger?.error?.(`${why} ${another}`);
        }
    };
    attempt(() => api.logger?.error?.(`${why} ${error?.stack ?? ""}`));
    attempt(() =>
        api.registerTrustedToolPolicy({
            id: "callosum",
            description: "Blocks everything but reads while the Callosum gate is unreachable.",
            evaluate: (event) => (held(event.toolName) ? { allow: false, reason: reason(event.toolName) } : undefined),
        }),
    );
    attempt(() =>
        api.on("before_tool_call", (event) =>
            held(event.toolName) ? { block: true, blockReason: reason(event.toolName) } : undefined,
        ),
    );
    attempt(() => api.on("gateway_start", () => announce(api, config)));
}

/** Tell the gate once that this gateway lives, as soon as a gate listens. */
async function announce(api, config) {
    try {
        const settings = settingsOf({ ...known(config), heartbeatSeconds: 10 });
        const gate = new Gate(settings, (text) => api.logger?.warn?.(`[callosum] ${text}`));
        const tell = async () => {
            try {
                await gate.ask("POST", "/events", beatOf(settings, { failed: "the plugin could not be set up" }), {
                    deadline: 5000,
                });
            } catch {
                setTimeout(tell, AGAIN).unref?.();
            }
        };
        await tell();
    } catch (error) {
        api.logger?.error?.(`[callosum] the gate cannot be told: ${error?.message}`);
    }
}

/** Return the settings that say where the gate is, as far as they are valid. */
function known(config) {
    const found = {};
    for (const name of ["instanceId", "namespace", "mode", "url", "token", "state", "command"]) {
        try {
            settingsOf({ [name]: config[name] });
            if (config[name] !== undefined) found[name] = config[name];
        } catch {
            // the invalid setting
        }
    }
    return found;
}
