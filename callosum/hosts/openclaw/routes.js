/** Serve the gate through the gateway: three RPC methods, and the gate's endpoints under the gateway's own address. */

import { Away } from "./gate.js";

export const PREFIX = "/callosum";
const MAX_BODY = 5_000_000;
/** Timeout in milliseconds: slightly longer than a call may wait at the gate. */
const LONGEST = 65_000;
/** Endpoints that an acting session needs. Approving, resolving and the streams are available at the gate itself. */
const SERVED = [
    ["POST", /^\/(?:intercept|complete|lock|release|renew|late)$/],
    ["DELETE", /^\/lock\/[^/]+$/],
    ["GET", /^\/(?:status|brief|journal|fallback|health)$/],
];
const STATUS = ["contextKey", "namespace"];
const JOURNAL = ["cursor", "limit", "session", "contextKey", "newest", "namespace"];

function queryOf(params, names) {
    const given = names.filter((name) => params?.[name] !== undefined && params[name] !== null);
    return new URLSearchParams(given.map((name) => [name, String(params[name])]));
}

/** Register an RPC method of the gateway that sends one request to the gate. */
export function methodOf(link, path, names, defaults = {}) {
    return async ({ params, respond }) => {
        try {
            const { namespace } = link.settings;
            const asked = { ...defaults, ...(namespace === undefined ? {} : { namespace }), ...params };
            respond(
                true,
                await link.gate.ask("GET", `${path}?${queryOf(asked, names)}`, undefined, { deadline: 5000 }),
            );
        } catch (error) {
            const code = error instanceof Away ? "UNAVAILABLE" : "INVALID_REQUEST";
            respond(false, undefined, { code, message: error.message, retryable: error instanceof Away });
        }
    };
}

/** Register an RPC method of the gateway that says whether the gate answers, and which gate it is. */
export function pingOf(link) {
    return async ({ respond }) => {
        const { mode, url } = link.settings;
        const where = url === undefined ? { mode } : { mode, serverUrl: url };
        try {
            const health = await link.gate.ask("GET", "/health", undefined, { deadline: 5000 });
            respond(true, { ok: health.ok !== false, remote: mode === "remote", ...where });
        } catch (error) {
            respond(true, { ok: false, remote: false, error: error.message, ...where });
        }
    };
}

export const methods = (link) => ({
    "callosum.ping": pingOf(link),
    "callosum.status": methodOf(link, "/status", STATUS),
    "callosum.journal": methodOf(link, "/journal", JOURNAL, { newest: true, limit: 50 }),
});

async function bodyOf(request) {
    const pieces = [];
    let size = 0;
    for await (const piece of request) {
        size += piece.length;
        if (size > MAX_BODY) return undefined;
        pieces.push(piece);
    }
    return Buffer.concat(pieces).toString();
}

/** Forward a request that the gateway has accepted to the gate, with the gate's own token. */
export function passing(link) {
    return async (request, response) => {
        const say = (status, body) => {
            response.writeHead(status, { "content-type": "application/json" });
            response.end(typeof body === "string" ? body : JSON.stringify(body));
            return true;
        };
        const target = request.url.slice(PREFIX.length);
        const path = target.split("?")[0];
        if (
            !request.url.startsWith(`${PREFIX}/`) ||
            !SERVED.some(([method, form]) => method === request.method && form.test(path))
        ) {
            return say(404, { error: "the gateway does not serve this", at: "path" });
        }
        const text = await bodyOf(request);
        if (text === undefined) return say(413, { error: `more than ${MAX_BODY} bytes`, at: "body" });
        try {
            const answer = await link.gate.pass(request.method, target, text === "" ? undefined : text, LONGEST);
            return say(answer.status, answer.body);
        } catch (error) {
            link.missed(error.message);
            return say(503, { error: `the gate cannot be asked: ${error.message}`, at: "gate" });
        }
    };
}
