"""The words by which an unknown tool is judged: verbs with their tiers, and the nouns that lift them.

Data only. A *strong* verb is hardly ever a noun in a tool's name; a *loose* one often is (``deploy``
in ``deploy_logs_get``), so that a strong verb at the end of the name outweighs it; a *weak* one is
usually a noun and counts where nothing else does.
"""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READ_STRONG: Final = """
get list read find fetch show view describe lookup inspect browse display retrieve examine explain compare
calculate validate verify summarize summarise analyze analyse aggregate detect parse convert estimate
enumerate grep cat ls pwd whoami ping tail head glob diff stat du wc tree ps traceroute whois peek poll
suggest recommend classify discover resolve_id wait sleep think reason echo print lint audit scan diagnose
interpret evaluate_expression measure tally identify determine recall remember_nothing predict guess infer
distinguish extract visualize visualise has is can exists contains select subtract multiply divide
"""
_READ_LOOSE: Final = """
compute count check sort sum average search query monitor watch translate preview trace profile test probe
sample hear listen look see navigate_to
"""
_READ_WEAK: Final = """
status info information details detail history stats statistics schema logs log count size usage metrics
metric limits tree indexes overview summary report reports help version time date weather balance price
quote_price snapshot screenshot screencast messages requests request_log definitions changes contents
content metadata insights inference embeddings completion completions similarity distance median mean max
min absolute percentage power round sqrt logarithm deviation conversion difference exchange_rate guidance
recommendation recommendations availability permissions_list capabilities spec specification diagram
documentation docs doc
"""
_WRITE_1_STRONG: Final = """
create add update edit modify change set write save put insert append rename move copy replace upsert
patch prepend upload mark make generate build configure setup initialize initialise init enable disable
toggle activate deactivate install unzip zip compress extract_to mkdir mv cp touch chmod chown ln symlink
rsync sync attach detach link unlink assign unassign reassign subscribe unsubscribe follow unfollow star
unstar pin unpin mute unmute archive unarchive dismiss hide unhide tag untag remove clear reset restart
reboot stop kill start pause resume trigger rerun execute exec invoke eval evaluate connect disconnect
login logout authenticate authorize signin signout signup register unregister enroll click press fill drag
drop_on scroll hover tap swipe navigate upgrade downgrade load reload refresh reindex migrate clone
duplicate fork instantiate scaffold arrange resize reorder reprioritize prioritize increase decrease
increment decrement adjust crop rotate lock unlock open close reopen unresolve resolve complete finish
begin prepare provision compose emulate simulate commit checkout unstage stash rebase cherry revert undo
redo restore recover download export adopt claim unclaim acquire join leave unflag favorite like unlike
bookmark manage apply push_local merge_local swap shift mount unmount bind unbind reconnect focus skip
append_to convert_to sort_in_place normalize_in_place park recognize synthesize
"""
_WRITE_1_LOOSE: Final = """
import type process store record flag rate vote handle stage run draft plan label note cache queue design
"""
_WRITE_1_WEAK: Final = """
alarm route plugin job task script code command file folder auth hook webhook trigger_event process_item
"""
_SEND_STRONG: Final = """
send reply respond publish notify dm tweet retweet announce broadcast react forward invite mention
dispatch submit escalate syndicate crosspost remind
"""
_COMMIT_STRONG: Final = """
reschedule reserve rebook rsvp accept decline approve reject deny cancel merge undeploy rollback enrol
hire unschedule confirm promote dial failover teardown
"""
_SEND_LOOSE: Final = "comment message share post contact answer push text alert ping chat"
_COMMIT_LOOSE: Final = "exchange deploy sign place schedule book return release order call email mail"
_GRAVE_STRONG: Final = """
delete destroy purge wipe erase drop terminate truncate rm rmdir rmrf shred nuke obliterate deprovision
decommission pay buy refund withdraw reimburse payout remit uninstall_all factory_reset
"""
_GRAVE_LOOSE: Final = "charge purchase deposit wire"
_TRANSFER: Final = "transfer donate fund bid sell trade"

STRONG: Final = 2
LOOSE: Final = 1
WEAK: Final = 0


def _verbs() -> dict[str, tuple[int, int]]:
    table: dict[str, tuple[int, int]] = {}
    for words, tier, strength in (
        (_READ_WEAK, 0, WEAK),
        (_WRITE_1_WEAK, 1, WEAK),
        (_READ_LOOSE, 0, LOOSE),
        (_WRITE_1_LOOSE, 1, LOOSE),
        (_SEND_LOOSE, 2, LOOSE),
        (_COMMIT_LOOSE, 3, LOOSE),
        (_GRAVE_LOOSE, 4, LOOSE),
        (_READ_STRONG, 0, STRONG),
        (_WRITE_1_STRONG, 1, STRONG),
        (_SEND_STRONG, 2, STRONG),
        (_TRANSFER, 2, STRONG),
        (_COMMIT_STRONG, 3, STRONG),
        (_GRAVE_STRONG, 4, STRONG),
    ):
        table.update((word, (tier, strength)) for word in words.split())
    return table


VERBS: Final = _verbs()
"""Verb -> (tier, strength)."""

DESTROYS: Final = _words(
    "delete destroy purge wipe erase drop terminate truncate rm rmdir shred nuke obliterate deprovision "
    "decommission teardown"
)
REMOVES: Final = _words("remove unlink detach clear reset revoke unregister uninstall dismiss archive")
SENDS: Final = _words(_SEND_STRONG) | _words(_SEND_LOOSE) | _words("email mail call dial")
ADDS: Final = _words(
    "create add send post reply book append insert publish share comment message react submit place order "
    "buy purchase pay refund transfer withdraw deposit schedule reserve upload invite forward announce "
    "broadcast tweet generate make register log record respond contact email mail donate call dial "
    "dispatch notify"
)
"""Verbs that put something into a container: two of them do not conflict."""
REPEATS: Final = _words(
    "create add send post reply book append insert publish comment message submit place order buy "
    "purchase pay refund transfer withdraw deposit schedule reserve invite forward announce broadcast "
    "tweet retweet register respond contact email mail donate call dial dispatch notify trigger rerun "
    "fork clone duplicate make charge wire remit payout reimburse fund hire exchange return share rebook "
    "sell trade bid remind escalate answer crosspost provision dm spawn"
)
"""Verbs whose act happens again when it is repeated."""
WHOLE: Final = _words("write create save put overwrite upload store")
"""Verbs after which a resource holds what the call says and nothing else."""

ADDRESSED: Final = _words(
    "send email mail reply respond forward invite notify message dm text contact call dial mention ping announce"
)
"""Verbs whose act is for those it is addressed to."""
PAYS: Final = _words(
    "pay purchase buy refund withdraw reimburse payout wire remit deposit charge send transfer make "
    "create schedule initiate donate fund"
)
MONEY: Final = _words(
    "payment refund payout money fund funds subscription wallet salary payroll_run deposit purchase "
    "charge cash donation"
)
MONEY_RECORDS: Final = _words("invoice quote transaction bill journal credit estimate expense budget")
"""Commercial documents: grave when money moves with them (a recipient and an amount)."""
ACCESS: Final = _words(
    "password permission role secret policy credential config configuration iam acl firewall passkey mfa "
    "privilege apikey access"
)
COMMITMENTS: Final = _words(
    "event meeting appointment booking reservation order flight hotel ticket_purchase invitation rsvp "
    "itinerary interview cron insurance contract"
)
MAILS: Final = _words("email mail newsletter sms call fax letter")
TALK: Final = _words(
    "comment message reaction post reply thread tweet discussion issue pr release review notification "
    "chat channel announcement gist"
)
HEAVY: Final = _words(
    "repo repository account user organization org project database db bucket server cluster vm instance "
    "domain tenant workspace team member customer namespace zone volume"
)
LIGHT: Final = _words(
    "label filter tag reaction draft cache bookmark star comment observation relation entity property "
    "line node reminder slide cell row item slot mode attachment watchlist favorite pin notification rule "
    "option index variable style variation todo"
)
"""Things whose removal is soon made good."""
ASIDES: Final = _words("reminder label tag comment note filter color colour attachment")
"""Parts of a commitment that commit nobody."""
HARMLESS_TWICE: Final = _words(
    "label tag reaction star participant member file folder permission watchlist assignee reviewer pin"
)
"""What is added or made twice without harm."""

STANCES: Final[dict[str, str]] = {
    "accept": "+attend", "attend": "+attend", "join": "+attend", "decline": "-attend", "rsvp": "",
    "leave": "-attend", "book": "+book", "reserve": "+book", "rebook": "+book", "schedule": "+book",
    "place": "+book", "cancel": "-book", "unschedule": "-book", "create": "+exist", "delete": "-exist",
    "destroy": "-exist", "drop": "-exist", "restore": "+exist", "purge": "-exist", "terminate": "-exist",
    "approve": "+approve", "reject": "-approve", "deny": "-approve", "confirm": "+approve",
    "enable": "+enable", "disable": "-enable", "activate": "+enable", "deactivate": "-enable",
    "open": "+open", "reopen": "+open", "unresolve": "+open", "close": "-open", "resolve": "-open",
    "start": "+run", "resume": "+run", "stop": "-run", "pause": "-run", "lock": "+lock", "unlock": "-lock",
    "subscribe": "+subscribe", "unsubscribe": "-subscribe", "grant": "+grant", "revoke": "-grant",
    "archive": "+archive", "unarchive": "-archive", "publish": "+publish", "unpublish": "-publish",
    "merge": "+merge", "deploy": "+deploy", "rollback": "-deploy", "undeploy": "-deploy",
    "assign": "+assign", "unassign": "-assign", "pay": "+pay", "refund": "-pay", "buy": "+buy",
    "purchase": "+buy", "sell": "-buy",
}  # fmt: skip
"""Verb -> the side it takes."""
ANSWERS: Final[dict[str, str]] = {
    "accept": "accept", "accepted": "accept", "yes": "accept", "attending": "accept", "going": "accept",
    "decline": "decline", "declined": "decline", "no": "decline", "not_attending": "decline",
    "not_going": "decline", "approve": "approve", "approved": "approve", "approved_by": "approve",
    "reject": "reject", "rejected": "reject", "deny": "reject", "denied": "reject",
    "request_changes": "reject", "cancelled": "cancel", "canceled": "cancel", "closed": "close",
    "open": "open", "opened": "open", "reopened": "open", "enabled": "enable", "disabled": "disable",
    "confirmed": "confirm",
}  # fmt: skip
"""What a ``response``, ``status`` or ``decision`` may say, as a verb."""

FOLD: Final[dict[str, str]] = {
    "mail": "email", "gmail": "email", "emails": "email", "meeting": "event", "appointment": "event",
    "invitation": "event", "invite": "event", "folder": "directory", "dir": "directory", "person": "user",
    "people": "user", "repository": "repo", "msg": "message", "pull": "pr", "mr": "pr", "chat": "channel",
    "conversation": "channel", "room": "channel", "organisation": "organization", "org": "organization",
    "db": "database", "reservation": "booking", "txn": "transaction", "document": "doc", "acct": "account",
}  # fmt: skip
"""Synonyms, folded to one noun."""

PREPOSITIONS: Final = _words("to from in into on onto by for with at of across as per via")
QUALIFIERS: Final = _words(
    "new old source target current default existing original parent pending delivered selected first last "
    "next my all any batch bulk multiple many single unread sent received recent most scheduled the a an "
    "or and api get id ids destination dest src src dst"
)
"""Words of a name that say nothing about which thing is meant."""

ACTION_PARAMS: Final = (
    "action",
    "method",
    "operation",
    "op",
    "verb",
    "command",
    "subcommand",
    "request_type",
    "type_of_action",
)
ANSWER_PARAMS: Final = (
    "response",
    "rsvp",
    "decision",
    "answer",
    "event",
    "status",
    "state",
    "response_status",
    "responseStatus",
)
SQL_PARAMS: Final = ("sql", "query", "statement", "sql_query", "sqlQuery", "statements", "queries")
SCOPES: Final = _words(
    "tenant subscription resource_group resourcegroup workspace cloud page connection cursor session "
    "request region zone client app application organization team site realm env environment trace "
    "correlation model parent_run run auth retry"
)
"""Ids that say where, not what; they are targets only where the tool is about them."""
IGNORED: Final = _words(
    "limit offset page per_page page_size pagesize cursor sort order_by orderby direction format "
    "max_results maxresults count top skip fields include exclude verbose timeout language locale"
)
HTTP: Final = {"get": 0, "head": 0, "options": 0, "trace": 0, "post": 2, "put": 1, "patch": 1, "delete": 4}
