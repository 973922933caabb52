/**
 * Gate what the host sends for a session: replies, announcements, heartbeats. Each counts as a `message.send`.
 *
 *     reply_payload_sending ── asks the gate ──> allowed: kept ──> message_sent reports
 *     message_sending ───────── the same delivery: nothing; another: asks
 *
 * The delivery of a running `message` call is part of that call. A blocked delivery is reported to its session with the
 * next turn, because nobody is there to repeat it.
 */

import { randomUUID } from "node:crypto";

import { defined, heldText } from "./calls.js";
import { Away, Refused } from "./gate.js";
import { nameOf } from "./names.js";
import { shortened } from "./truncation.js";
import { goesOn } from "./tiers.js";

const MOST = 1000;
/** Milliseconds that an allowed delivery waits for the hooks that follow it. */
const KEPT = 120_000;
/** Milliseconds that a delivery waits for a gate that is starting; less than the host waits for its hook. */
export const PATIENCE = 8_000;
/** Channels whose messages are mails. */
const MAIL = /mail|imap|smtp/i;
const CHAT = 2;
const COMMITMENT = 3;

export class Deliveries {
    #link;
    #passed = [];

    constructor(link) {
        this.#link = link;
    }

    /** Handle `reply_payload_sending`: one reply, before it is split and sent. */
    async payload(event, ctx) {
        const { text, mediaUrl, mediaUrls, replyToId } = event.payload ?? {};
        const media = (mediaUrls ?? (mediaUrl ? [mediaUrl] : [])).join(" ");
        if (!text && !media) return undefined;
        const denied = await this.#judge({
            channel: event.channel ?? ctx.channelId,
            to: ctx.conversationId,
            text: text ?? "",
            media,
            replyTo: replyToId,
            session: event.sessionKey ?? ctx.sessionKey,
            run: event.runId ?? ctx.runId,
            seam: "payload",
        });
        return denied && { cancel: true, reason: denied };
    }

    /** Handle `message_sending`: one message on its way to the channel. */
    async sending(event, ctx) {
        const denied = await this.#judge({
            channel: event.metadata?.channel ?? ctx.channelId,
            to: event.to,
            text: event.content ?? "",
            media: (event.metadata?.mediaUrls ?? []).join(" "),
            replyTo: event.replyToId ?? ctx.replyToId,
            session: ctx.sessionKey,
            run: ctx.runId,
            seam: "message",
        });
        return denied && { cancel: true, cancelReason: denied };
    }

    /** Handle `message_sent`: the outcome of a delivery. */
    async sent(event, ctx) {
        const text = plain(event.content ?? "");
        const item = this.#find(ctx.channelId, text);
        if (item === undefined) return;
        item.left -= Math.max(1, text.length);
        if (item.left <= 0 || !event.success) this.#passed = this.#passed.filter((one) => one !== item);
        // If a message was sent in pieces, the first report counts.
        if (item.reported) return;
        item.reported = true;
        const lost = !event.success && /time(?:d )?out|reset|closed|abort/i.test(event.error ?? "");
        const outcome = event.success ? "done" : lost ? "unknown" : "failed";
        const result = event.success
            ? { messageId: event.messageId ?? null }
            : { error: event.error ?? "it was not sent" };
        if (item.late !== undefined) this.#link.late.report(item.late, outcome);
        else if (item.id !== undefined) await this.#report({ ...item.who, id: item.id, outcome, result });
    }

    /** Return why the delivery is blocked, or `undefined` if it is sent. */
    async #judge(delivery) {
        const text = plain(delivery.text);
        if (this.#isOfCall(delivery, text)) return undefined;
        if (delivery.seam === "message") {
            const known = this.#find(delivery.channel, text, (item) => item.reply && item.session === delivery.session);
            if (known !== undefined) return undefined;
        }
        const words = this.#wordsOf(delivery);
        const { instance, session, namespace } = words;
        const item = {
            channel: delivery.channel,
            session: delivery.session,
            reply: delivery.seam === "payload", // the message that follows is the sending of this reply
            text,
            left: text.length,
            at: Date.now(),
            who: defined({ instance, session, namespace }),
        };
        const denied = await this.#ask(delivery, words, item);
        if (denied === undefined) {
            this.#passed.push(item);
            if (this.#passed.length > MOST) this.#passed.shift();
        } else if (delivery.session) {
            this.#link.tell(delivery.session, `Your message to ${words.params.target} was not delivered. ${denied}`);
        }
        return denied;
    }

    #wordsOf({ channel, to, text, media, replyTo, session, run }) {
        const { turns, who } = this.#link;
        const known = session === undefined ? undefined : turns.session(session);
        const turn = run ?? known?.run;
        const target = String(to ?? "").replace(new RegExp(`^${escaped(String(channel))}:`), "");
        return defined({
            ...who(session ?? `delivery:${channel}`),
            tool: "message",
            action: "send",
            params: defined({
                channel,
                target: target || String(channel),
                message: shortened(text),
                media: media || undefined,
                replyTo,
            }),
            callId: `delivery:${randomUUID()}`,
            pause: true,
            run: turn === undefined ? undefined : nameOf(turn),
            origin: turns.originOf(turn, session),
            purpose: turns.purposeOf(turn),
            after: turns.seenBy(turn),
        });
    }

    async #ask(delivery, words, item) {
        const { gate, settings } = this.#link;
        const tier = MAIL.test(String(delivery.channel)) || words.params.replyTo !== undefined ? COMMITMENT : CHAT;
        const patience = goesOn(tier, settings.failMode) ? 0 : PATIENCE;
        await this.#link.told();
        try {
            const decision = await gate.ask("POST", "/intercept", words, { patience });
            if (decision.proceed === false) return decision.warning ?? `[Callosum] ${decision.verdict}`;
            if (decision.proceed !== true || !Number.isSafeInteger(decision.id))
                throw new Away("its answer makes no sense");
            item.id = decision.id;
            this.#link.reached();
            return undefined;
        } catch (error) {
            if (!(error instanceof Away || error instanceof Refused))
                gate.log(`a delivery could not be asked about: ${error.stack}`);
            this.#link.missed(error.message);
            if (!goesOn(tier, settings.failMode)) {
                if (error instanceof Away && error.unsent !== true) this.#link.late.giveUp(words);
                return heldText(error.message, "message", tier);
            }
            item.late = this.#link.late.add(words);
            return undefined;
        }
    }

    /** Return whether a running `message` call sends this. Its session may be another, because each chat has one. */
    #isOfCall({ channel }, text) {
        return (
            this.#link.calls.find("message", (call) => {
                const params = JSON.parse(call.rewritten ?? call.written);
                if (params.channel !== undefined && params.channel !== channel) return false;
                const said = plain(params.message ?? params.text ?? params.content ?? params.caption ?? "");
                return said === text || (text !== "" && said.includes(text));
            }) !== undefined
        );
    }

    #find(channel, text, matches = () => true) {
        const old = Date.now() - KEPT;
        this.#passed = this.#passed.filter((item) => item.at > old);
        const same = (item) =>
            item.channel === channel && (item.text === text || (text !== "" && item.text.includes(text)));
        return this.#passed.find((item) => same(item) && matches(item));
    }

    async #report(body) {
        try {
            await this.#link.gate.ask("POST", "/complete", body, { deadline: 10_000 });
        } catch (error) {
            if (error instanceof Away) this.#link.owe(body);
        }
    }
}

/** Return a text without the parts that differ between the hooks that see it. */
function plain(text) {
    return String(text).replace(/\s+/g, " ").trim();
}

function escaped(text) {
    return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
