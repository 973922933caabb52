/**
 * The OpenClaw plugin of Callosum: every tool call and every delivery of every session is decided by the gate.
 *
 * OpenClaw starts without a plugin that throws, and then nothing is gated. Therefore nothing here throws, and the
 * modules are loaded where a failure can be caught.
 */

import { createRequire } from "node:module";

const load = createRequire(import.meta.url);

export default {
    id: "callosum",
    name: "Callosum",
    description: "Asks the Callosum gate before each tool call and each delivery, and reports how it ended.",
    register(api) {
        try {
            load("./plugin.js").wire(api);
        } catch (error) {
            try {
                load("./failsafe.js").standIn(api, error);
            } catch (another) {
                hold(api, another);
            }
        }
    },
};

/** Block everything but reads. The last resort if the plugin's own files are broken. */
function hold(api, error) {
    const reason = `[Callosum] The plugin is broken (${error?.message}): no tool runs until it is installed again.`;
    try {
        api.logger?.error?.(reason);
        api.registerTrustedToolPolicy({
            id: "callosum",
            description: "Holds everything.",
            evaluate: () => ({ allow: false, reason }),
        });
    } catch {
        // this OpenClaw does not know trusted policies
    }
    try {
        api.on("before_tool_call", () => ({ block: true, blockReason: reason }));
    } catch {
        // nothing else can be tried
    }
}
