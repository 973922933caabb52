/** Read the plugin's `config` in openclaw.json and fill in the defaults. */

const FAIL_MODES = new Set(["tier", "open", "closed"]);

/** A setting that cannot be used. The gate is then unreachable, and each blocked call says so. */
export class BadSetting extends Error {}

function text(config, name, otherwise) {
    const value = config[name];
    if (value === undefined || value === null) return otherwise;
    if (typeof value !== "string" || value.trim() === "") throw new BadSetting(`${name}: expected text`);
    return value;
}

function number(config, name, least, most, otherwise) {
    const value = config[name] ?? otherwise;
    if (!Number.isFinite(value) || value < least || value > most) {
        throw new BadSetting(`${name}: expected a number from ${least} to ${most}`);
    }
    return value;
}

function address(config) {
    const url = new URL(text(config, "url", text(config, "serverUrl", "http://127.0.0.1:7700")));
    if (!["http:", "https:"].includes(url.protocol) || url.username || url.search || url.hash) {
        throw new BadSetting("url: expected http(s)://host:port without user, query and fragment");
    }
    return url.href.replace(/\/+$/, "");
}

function command(config) {
    const words = config.command ?? ["callosum"];
    if (!Array.isArray(words) || !words.length || !words.every((word) => typeof word === "string" && word)) {
        throw new BadSetting("command: expected a list of words");
    }
    return words;
}

/**
 * Return the checked settings. `seconds` is the time between two heartbeats, `deadline` is in milliseconds.
 *
 * Throws `BadSetting`. OpenClaw has already checked them by the manifest's schema, but other versions may check
 * differently.
 */
export function settingsOf(config = {}) {
    const mode = text(config, "mode", (config.url ?? config.serverUrl) === undefined ? "local" : "remote");
    if (mode !== "local" && mode !== "remote") throw new BadSetting('mode: expected "local" or "remote"');
    const failMode = text(config, "failMode", "tier");
    if (!FAIL_MODES.has(failMode)) throw new BadSetting('failMode: expected "tier", "open" or "closed"');
    return {
        instance: text(config, "instanceId", "openclaw"),
        namespace: text(config, "namespace", undefined),
        mode,
        url: mode === "remote" ? address(config) : undefined,
        token: mode === "remote" ? text(config, "token", undefined) : undefined,
        state: text(config, "state", undefined),
        command: command(config),
        failMode,
        deadline: number(config, "deadlineMs", 50, 10_000, 900),
        seconds: number(config, "heartbeatSeconds", 10, 600, 30),
        deliveries: config.deliveries !== false,
        brief: config.brief !== false,
    };
}
