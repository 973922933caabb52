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
enumerate grep cat ls pwd whoami ping tail head glob diff stat du wc tree ps traceroute whois peek
suggest recommend classify discover wait sleep think reason echo print lint audit scan diagnose
interpret measure tally identify determine recall predict guess infer distinguish extract visualize
visualise has is can exists contains select subtract multiply divide explore introspect locate scrape crawl
transcribe recognize recognise blame geocode outline decode tokenize nslookup dig observe assess investigate
troubleshoot rerank teach gather contrast correlate collate interrogate survey weigh calc tabulate exponentiate
"""
_READ_LOOSE: Final = """
compute count check sort sum average search query monitor watch translate preview trace profile test probe
sample hear listen look see poll ask research render score rank match encode hash filter normalize normalise
"""
_REDIS_READ: Final = """
hget hgetall hmget hkeys hvals hlen hexists hscan lrange llen lindex smembers sismember scard sscan sinter sunion
sdiff zrange zrevrange zrangebyscore zscore zrank zcard zcount zscan xrange xrevrange xread xlen xinfo mget ttl pttl
strlen getrange bitcount pfcount georadius geosearch geodist dbsize randomkey hstrlen hrandfield lpos smismember
sintercard srandmember zrevrangebyscore zlexcount zmscore zintercard zrandmember xpending getbit bitpos geopos
geohash expiretime pexpiretime
"""
_REDIS_WRITE: Final = """
hset hmset hsetnx hdel hincrby lpush rpush lpop rpop lrem lset ltrim sadd srem spop smove zadd zrem zincrby zpopmin
zpopmax xadd xdel xtrim xack mset msetnx setex psetex setnx setrange getset getdel getex incr decr incrby decrby expire
expireat pexpire persist pfadd geoadd bgsave bgrewriteaof xreadgroup xclaim xautoclaim xsetid blpop brpop lmove blmove
rpoplpush brpoplpush linsert lpushx rpushx sinterstore sunionstore sdiffstore zunionstore zinterstore zdiffstore
zrangestore hincrbyfloat incrbyfloat hexpire hpersist pexpireat renamenx setbit bitfield pfmerge
"""
_REDIS_GRAVE: Final = "del flushall flushdb"
_READ_WEAK: Final = """
status info information details detail history stats statistics schema logs log count size usage metrics
metric limits tree indexes overview summary report reports help version time date weather balance price
quote_price snapshot screenshot screencast messages requests request_log definitions changes contents
content metadata insights inference embeddings completion completions similarity distance median mean max
min absolute percentage power round sqrt logarithm deviation conversion difference exchange_rate guidance
recommendation recommendations availability permissions_list capabilities spec specification diagram
documentation docs doc transcript directions forecast leaderboard timeline trends
"""
_WRITE_1_STRONG: Final = """
create add update edit modify change set write save put insert append rename move copy replace upsert
patch prepend upload mark make generate build configure setup initialize initialise init enable disable
toggle activate deactivate install unzip zip compress mkdir mv cp touch chmod chown ln symlink
rsync sync attach detach link unlink assign unassign reassign subscribe unsubscribe follow unfollow star
unstar pin unpin mute unmute archive unarchive dismiss hide unhide tag untag remove clear reset restart
reboot stop kill start pause resume trigger rerun execute exec invoke eval evaluate connect disconnect
login logout authenticate authorize signin signout signup register unregister enroll click press fill drag
scroll hover tap swipe navigate upgrade downgrade load reload refresh reindex migrate clone
duplicate fork instantiate scaffold arrange resize reorder reprioritize prioritize increase decrease
increment decrement adjust crop rotate lock unlock open close reopen unresolve resolve complete finish
begin prepare provision compose emulate simulate commit checkout checkin unstage stash rebase cherry revert undo
redo restore recover download export adopt claim unclaim acquire join leave unflag favorite like unlike
bookmark manage apply swap shift mount unmount bind unbind reconnect focus skip park synthesize
transition snooze scale cordon drain evict block unblock play mint finalize finalise reconcile allocate
acknowledge ack nack invalidate uninstall overwrite override spawn retry requeue enqueue dequeue postpone
defer delay extend renew revise rewrite amend repair autofix relaunch rebuild recreate redeploy reinstall
redirect unset untrash undelete encrypt decrypt quarantine unshare unlist unpublish rewind fastforward retrain transcode
deduplicate dedupe flush squash pop unpair unban initiate recalibrate associate dissociate disassociate unprotect
suppress unsuppress ungroup untaint unpark customize customise
"""
_WRITE_1_LOOSE: Final = """
import type process store record flag rate vote handle stage run draft plan label note cache queue design settle
void capture redeem pull switch turn act control fix launch boot trash split backup boost shuffle cast pair produce
perform use
"""
_WRITE_1_WEAK: Final = """
alarm route plugin job task script code command file folder auth hook webhook
"""
_SEND_STRONG: Final = """
send resend reply respond publish notify dm tweet retweet announce broadcast react forward invite mention
dispatch submit escalate syndicate crosspost remind
"""
_COMMIT_STRONG: Final = """
reschedule reserve rebook rsvp accept decline approve reject deny cancel merge undeploy rollback enrol
hire unschedule confirm promote dial failover teardown revoke ban kick suspend offboard deauthorize unauthorize
"""
_SEND_LOOSE: Final = "comment message share post contact answer push text alert ping chat"
_COMMIT_LOOSE: Final = "trade bid exchange deploy sign place schedule book return release order call email mail"
_GRAVE_STRONG: Final = """
delete destroy purge wipe erase drop terminate truncate rm rmdir rmrf shred nuke obliterate deprovision
decommission expunge deregister
prune pay repay buy refund withdraw reimburse payout cashout disburse
remit impersonate sell grant liquidate borrow lend invest stake unstake
"""
_GRAVE_LOOSE: Final = "charge purchase deposit wire tip topup empty"
_DEEDS: Final = {
    0: "retrieval",
    1: "creation insertion removal modification",
    3: "cancellation",
    4: "deletion termination",
}
"""Nouns of acts, by tier: ``account_deletion``."""
_TRANSFER: Final = "transfer donate fund"

STRONG: Final = 2
LOOSE: Final = 1
WEAK: Final = 0


def _verbs() -> dict[str, tuple[int, int]]:
    table: dict[str, tuple[int, int]] = {}
    for words, tier, strength in (
        *((words, tier, WEAK) for tier, words in _DEEDS.items()),
        (_READ_WEAK, 0, WEAK),
        (_WRITE_1_WEAK, 1, WEAK),
        (_READ_LOOSE, 0, LOOSE),
        (_WRITE_1_LOOSE, 1, LOOSE),
        (_SEND_LOOSE, 2, LOOSE),
        (_COMMIT_LOOSE, 3, LOOSE),
        (_GRAVE_LOOSE, 4, LOOSE),
        (_REDIS_READ, 0, STRONG),
        (_REDIS_WRITE, 1, STRONG),
        (_REDIS_GRAVE, 4, STRONG),
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

REDIS: Final = _words(f"{_REDIS_READ} {_REDIS_WRITE} {_REDIS_GRAVE}")
KEEPS: Final = REDIS | _words("get set put read write fetch store update append delete remove has exists")
"""Verbs of a store of entries: alone they speak of what is kept under a key."""
PUSHES: Final = _words("lpush rpush lpushx rpushx xadd")
"""Commands of Redis that put one thing more into a list or a stream."""
ONLY_VERBS: Final = _words("get fetch describe retrieve lookup inspect enumerate browse examine")
"""Looking verbs that are no nouns: at the end of a name they are the verb."""
LISTS: Final = _words("list tree ps stat find audit scan ls cat tail head")
"""Looking verbs that are nouns as well: ``todo_list_add`` adds, ``ps_restart`` restarts."""
ACTS: Final[dict[str, str]] = {"report": "submit", "snapshot": "backup"}
"""Looking words that are acts where an object follows, with the verb that they amount to."""
SIDES: Final = _words("details detail info information status stats statistics count history metrics size schema")
"""Ends of a name that say that it looks: ``order_status`` orders nothing."""
SENT: Final = _words("details detail info information status")
"""... unless the verb sends such a thing: ``post_status``."""
GENERIC: Final = _words("manage handle process execute run invoke call do use exec perform apply request set type")
"""Verbs that say only that something is done; what, the arguments say."""
RUNS: Final = _words("run execute invoke")
SPOKEN: Final = _words("get retrieve find create generate modify add send publish cancel close remove delete destroy")
"""Verbs whose third person is no noun: ``deletes_the_group``."""
NOT_TWINS: Final = _words("amount ahead avoid alike")
"""Words that are no verb with an "a" before it."""
BEGINS: Final = _words("start begin initiate trigger submit execute invoke confirm enqueue queue")
"""Verbs that say only that another act begins."""
DEEDS: Final = _words(" ".join(_DEEDS.values()))
THINGS: Final = _words("profile sample trace filter query search")
"""Looking verbs that are as often things: a ``profile_deletion`` looks at nothing."""
YIELDS: Final = _words("export download generate capture load render make produce build")
"""Verbs whose act may be no more than the answer it gives: in a description they raise nothing."""
TRIES: Final = _words(
    "verify validate check test probe audit scan diagnose monitor watch profile trace preview extract analyze "
    "analyse translate match score poll sample ping"
)
"""Verbs that look by doing something; what they do, the description may tell."""
BRINGS: Final = _words("download")
"""Verbs that bring something here; whether it is kept, the description may tell."""
PICTURES: Final = _words("screenshot snapshot screencast capture recording echo print dump pdf")
"""Words of tools whose answer is a file where a path is given."""
COMPUTED: Final = _words(
    "completion completions embedding embeddings transcription translation prediction uuid guid hash checksum "
    "tokenization moderation suggestion suggestions"
)
"""What a model or a formula makes and nothing keeps."""
TOLD: Final = COMPUTED | _words(
    "type types command commands cli deeplink query queries snippet sql regex prompt prompts idea ideas name names "
    "diagram guidance explanation summary description recommendation example examples changelog"
)
"""What "generate" may give as its answer: text that nobody keeps."""
KEPT: Final = _words("index table collection store record job batch file bucket database dataset field column set")
"""... unless it is one of these that is made, with or of such a thing."""
CALLED: Final = _words(
    "tool api service function method procedure endpoint actor workflow action command hook operation"
)
"""What is called otherwise than by phone."""
CONVERTED: Final = _words(
    "issue task subtask lead draft pr account user contact ticket page story opportunity quote order cart deal"
)
"""Things that are another thing once they are "converted"; a number or a text is not."""
FOLLOWED: Final = _words("repo issue pr page thread channel mailbox discussion user topic")
"""What one subscribes to by "watching" it."""
LOGGED: Final = _words(
    "entry entries file files line lines level levels stream streams group groups info status event events message "
    "messages record records data output outputs viewer reader path source sources id ids index error errors volume "
    "for of from in by and retention format analysis"
)
"""What a log has: after another noun, ``log`` at the beginning of a name is a verb."""
FOUND_BY_NAME: Final = _words("id ids name dns url uri path address symbol reference alias handle hostname host ip")
"""What is looked up where it is "resolved"."""

DESTROYS: Final = _words(
    "delete destroy purge wipe erase drop terminate truncate rm rmdir shred nuke obliterate deprovision "
    "decommission teardown expunge deregister prune empty del flushall flushdb deletion termination"
)
REMOVES: Final = _words("remove unlink detach clear reset revoke unregister uninstall dismiss archive")
ENDS: Final = (DESTROYS | REMOVES) - _words("archive empty deletion termination")
"""Verbs after which something is not there any more, and which are never nouns."""
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
POSTS: Final = _words("post share text")
SAYINGS: Final = _words("tweet reply mention")
"""Verbs that are what is posted, too."""
PAYS: Final = _words(
    "pay purchase buy refund withdraw reimburse payout wire remit deposit charge send transfer make "
    "create schedule initiate donate fund"
)
MONEY: Final = _words(
    "payroll payment refund payout money fund funds subscription wallet salary deposit purchase charge cash donation "
    "remittance reimbursement disbursement escrow loan dividend"
)
MONEY_RECORDS: Final = _words("invoice quote transaction bill journal credit estimate expense budget")
"""Commercial documents: grave when money moves with them (a recipient and an amount)."""
ACCESS: Final = _words(
    "password permission role secret policy credential config configuration iam acl firewall passkey mfa "
    "privilege apikey access ownership"
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
CONTAINERS: Final = _words(
    "base table sheet spreadsheet workbook database collection dataset bucket board project workspace space list "
    "playlist album notebook calendar team group cluster course site wiki drive guild store vault presentation library "
    "organization namespace queue"
)
"""Things that hold others: they are meant only where the call names nothing in them."""
REFERENCES: Final = _words(
    "charge payment intent invoice order transaction transfer payout subscription booking bill dispute capture sale "
    "purchase refund loan mandate statement claim reversal debit deposit"
)
"""What is paid, refunded or taken back, and is named by its own id."""
REPLIES: Final = _words("reply respond answer")
SPEAKS: Final = REPLIES | _words("send post write message text dm submit create add")
"""Verbs that say something, in a thread where one is named."""
PERSONS: Final = _words("user account organization team member customer tenant")
"""Those who lose something when they are taken out of what they were in."""
NOTICES: Final = _words("webhook event topic notification push queue alert")
"""What one subscribes to without paying."""
SHEETS: Final = _words("cell row slide pdf paragraph image clip video audio")
"""Of what documents are made: to merge some makes one of them, and nobody else's work is in it."""
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

FOLD: Final[dict[str, str]] = {
    "mail": "email", "gmail": "email", "emails": "email", "meeting": "event", "appointment": "event",
    "invitation": "event", "invite": "event", "folder": "directory", "dir": "directory", "person": "user",
    "people": "user", "repository": "repo", "msg": "message", "pull": "pr", "mr": "pr", "chat": "channel",
    "conversation": "channel", "organisation": "organization", "org": "organization",
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

METHODS: Final = ("method", "http_method", "httpMethod", "request_method", "requestMethod")
ACTION_PARAMS: Final = (
    "action",
    *METHODS,
    "operation",
    "op",
    "verb",
    "command",
    "subcommand",
    "request_type",
    "type_of_action",
)
TITLES: Final = ("title", "symbol", "ticker")
"""Params that name a thing where it has no id."""
TOOL_PARAMS: Final = (
    "tool", "tool_name", "toolName", "tool_slug", "action_name", "actionName", "operation_name", "operationName",
    "operation_id", "operationId", "function", "function_name", "functionName", "method_name", "methodName",
    "recipient_name",
)  # fmt: skip
"""Params that name the tool which a tool calls."""
SQL_PARAMS: Final = (
    "sql", "query", "statement", "sql_query", "sqlQuery", "statements", "queries", "sql_statement", "sqlStatement",
    "sql_text", "sqlText", "raw_sql", "rawSql", "cypher",
)  # fmt: skip
SCOPES: Final = _words(
    "tenant subscription resource_group resourcegroup workspace cloud page connection cursor session "
    "request region zone client app application organization team site realm env environment trace "
    "correlation model parent_run run auth retry"
)
"""Ids that say where, not what; they are targets only where the tool is about them."""
IGNORED: Final = _words(
    "limit offset page per_page page_size pagesize cursor sort order_by orderby direction format "
    "max_results maxresults count top skip fields include exclude verbose timeout language locale since"
)
HTTP: Final = {"get": 0, "head": 0, "options": 0, "trace": 0, "post": 2, "put": 1, "patch": 1, "delete": 4}

ASPECTS: Final = _words(
    "detail info information data record status state metadata summary count size list result history log "
    "statistic stat content overview report"
)
"""Nouns that say which side of a thing is looked at, not which thing."""
LISTED: Final[dict[str, str]] = {
    "email": "message", "inbox": "message", "mailbox": "message", "money": "transaction", "fund": "transaction",
    "payment": "transaction", "transfer": "transaction", "ledger": "transaction", "statement": "transaction",
    "calendar": "event", "schedule": "event", "agenda": "event", "availability": "event", "freebusy": "event",
}  # fmt: skip
"""What a list of these is a list of. (``email:`` keys are addressees, a mail is a message.)"""
CALENDARS: Final = _words("event slot availability schedule agenda")
MESSAGES: Final = _words("email message notification mention inbox thread sms channel")
"""What can be unread."""
NO_OBJECTS: Final = SIDES | ASPECTS | PREPOSITIONS
"""Words behind a looking word that say that it is no act: ``report_status``."""
NOT_YET: Final = _words("scheduled schedule recurring")
"""Words for what is prepared and not yet in effect: a scheduled payment is no payment."""
CREATES: Final = _words(
    "create add insert make register generate schedule book reserve order place submit upload publish post log record "
    "buy purchase donate announce append provision"
)
"""Verbs after which there is one thing more."""
SEARCHES: Final = _words("search find query discover explore scrape crawl")
OWNED: Final = _words(
    "password profile setting preference budget cart basket watchlist wishlist signature autoreply autoresponder "
    "balance theme timezone language wifi bluetooth cellular hotspot brightness"
)
"""Things of which an account, or a device, has one."""
SETS: Final = _words(
    "update set change modify edit configure enable disable toggle reset adjust clear activate deactivate save switch"
)
INTO: Final = _words("add remove move assign unassign attach detach append insert put invite push upload post book")
"""Verbs with an object and a place: ``add_user_to_channel`` changes the channel."""
