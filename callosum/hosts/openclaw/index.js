/**
 * The OpenClaw plugin of Callosum: every tool call and every delivery of every session is asked about at the gate.
 *
 * OpenClaw starts without a plugin that throws, and then nothing is gated: so nothing here throws. The parts are loaded
 * where their failure can be caught.
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
                load("./fallen.js").standIn(api, error);
            } catch (another) {
                hold(api, another);
            }
        }
    },
};

/** The last resort, when the plugin's own files are broken: nothing runs. */
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
        // an OpenClaw that does not know trusted policies
    }
    try {
        api.on("before_tool_call", () => ({ block: true, blockReason: reason }));
    } catch {
        // nothing is left that could be tried
    }
}
