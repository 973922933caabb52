/**
 * Send one call through the plugin as OpenClaw loads it, for `callosum doctor`: `node canary.mjs CALL`, with the
 * plugin's config as JSON on standard input. Prints `{"reason": ...}` if the call would not run, `{}` if it would.
 */
import fs from "node:fs";

import plugin from "./index.js";

const policies = [];
const say = (text) => process.stderr.write(`${text}\n`);
plugin.register({
    registrationMode: "full",
    pluginConfig: JSON.parse(fs.readFileSync(0, "utf8")),
    logger: { warn: say, error: say, info: () => {} },
    on: () => {},
    registerTrustedToolPolicy: (policy) => policies.push(policy),
    registerAgentToolResultMiddleware: () => {},
    registerGatewayMethod: () => {},
    registerHttpRoute: () => {},
});
const { session, tool, params } = JSON.parse(process.argv[2]);
const id = `doctor-${process.pid}-${Date.now()}`;
const ctx = { toolName: tool, sessionKey: session, sessionId: session, runId: id, toolCallId: id };
let reason;
for (const policy of policies) {
    const answer = await policy.evaluate({ toolName: tool, params, runId: id, toolCallId: id }, ctx);
    if (answer?.allow === false) reason ??= answer.reason;
}
process.stdout.write(JSON.stringify({ reason }), () => process.exit(0));
