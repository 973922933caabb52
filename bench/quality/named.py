"""Pairs of calls of two sessions that name what they act on in few words: those that collide, and those that do not.

They are written by hand from how such tools are called: no tool of the recorded traffic, no real account. A pair that
collides says contrary things to one thread, the same thing twice in one channel, or changes one thing. A pair that
does not differs in what it acts on, however much else is alike: text, amount, version, sort key, account.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final

Asked = tuple[str, dict[str, Any]]
"""A tool and its params."""


@dataclass(frozen=True)
class Named:
    """Two calls of two sessions. ``collide``: in either order the second session must be told of the first.

    ``ends``: the first call ends what the second only adds to. Only who would end it must be told then: an addition to
    what is gone fails by itself, and below tier 3 what another did is no reason to pause.
    """

    kind: str
    collide: bool
    one: Asked
    other: Asked
    ends: bool = False

    @property
    def identity(self) -> str:
        return f"{self.kind}/{self.collide}/{self.one}/{self.other}"


_YES: Final = "Yes, we take the offer of last week and send the signed contract by Friday at noon."
_NO: Final = "Sorry, the price is too high for us. We have decided for another supplier this year."
_OTHER: Final = "The garden party moves to the eighth of June because rain is forecast for the whole weekend."
_CONTRARY: Final = (_YES, _NO)


def _pairs(kind: str, rows: str, *, collide: bool, texts: tuple[str, str]) -> list[Named]:
    """Pairs of one tool. A row is ``tool param text-param value [other value]``, more params as ``name=value``."""
    found = []
    for line in rows.strip().splitlines():
        tool, named, said, value, *rest = line.split()
        more = dict(one.split("=", 1) for one in rest if "=" in one)
        other = next((one for one in rest if "=" not in one), value)
        one, two = ((tool, {named: v, said: text, **more}) for v, text in zip((value, other), texts, strict=True))
        found.append(Named(kind, collide, one, two))
    return found


# --- threads alone -----------------------------------------------------------------------------------

_REPLIES: Final = """
reply_to_mail thread_id body t-81
gmail_reply threadId body 18c2f0a9e1
email_reply thread_id text t-82
reply_to_thread thread_id message th_500
send_reply thread_id content th_501
mcp__gmail__reply threadId message 18c2f0a9e2
replyToMail threadId body t-83
outlook_reply conversationId comment AAQkAD1
reply_all thread_id body t-84
mail_reply thread body t-85
respond_to_thread thread_id text th_502
answer_thread threadId answer th_503
post_thread_reply thread_ts text 1716112345.000100
slack_reply thread_ts text 1716112345.000200
reply_in_thread thread_id text th_504
send_thread_message thread_id text th_505
send_email thread_id body t-86
send_mail threadId body t-87
reply_email message_id body m-11
reply_to_email email_id body m-12
replyToMessage messageId body m-13
reply_to_message message_id text m-14
gmail_send_reply in_reply_to body <a1@mail.example.com>
send_mail_reply inReplyTo text <a2@mail.example.com>
front_reply_conversation conversation_id body cnv_77
intercom_reply conversationId message 9911220033
reply_to_conversation conversation_id body cnv_78
add_message_to_thread thread_id content th_506
create_thread_reply thread_id body th_507
respond_to_email email_id body m-15
teams_reply replyToId content 1716000000001
discord_reply message_id content 1184000000000000001
send_message_reply reply_to text msg-501
reply thread_id body t-88
respond threadId text t-89
mailbox_respond thread_id body t-90
support_reply ticket_id message TCK-44
reply_to_ticket ticket_id body TCK-45
mcp__mail__send threadId body t-91
write_reply thread_id text th_508
send_response thread_id text th_509
comms_send_reply parentMessageId body m-16
"""

_ACROSS: Final[tuple[tuple[Asked, Asked], ...]] = (
    (("gmail_reply", {"threadId": "g-1", "body": _YES}),
     ("send_email", {"to": "alice@example.com", "threadId": "g-1", "body": _NO})),
    (("reply_to_mail", {"thread_id": "g-2", "body": _YES}), ("email_reply", {"threadId": "g-2", "text": _NO})),
    (("message", {"action": "send", "target": "andy", "message": _YES, "replyTo": "msg-500"}),
     ("reply_to_thread", {"thread_id": "msg-500", "message": _NO})),
    (("message", {"action": "thread-reply", "target": "#ops", "message": _YES, "replyTo": "msg-510"}),
     ("send_reply", {"thread_id": "msg-510", "content": _NO})),
    (("slack_reply_to_thread", {"channel_id": "C0123", "thread_ts": "1716112300.000100", "text": _YES}),
     ("reply_in_thread", {"thread_ts": "1716112300.000100", "text": _NO})),
    (("slack_post_message", {"channel": "ops", "thread_ts": "1716112300.000200", "text": _YES}),
     ("send_reply", {"thread_ts": "1716112300.000200", "text": _NO})),
    (("reply_email", {"message_id": "m-70", "body": _YES}),
     ("send_email", {"to": "alice@example.com", "in_reply_to": "m-70", "body": _NO})),
    (("gmail_reply", {"threadId": "g-3", "body": _YES}), ("reply_to_thread", {"threadId": "g-3", "message": _NO})),
    (("mcp__one__reply", {"thread_id": "g-4", "body": _YES}),
     ("mcp__two__send_reply", {"threadId": "g-4", "text": _NO})),
    (("send_reply", {"thread_id": "g-5", "content": _YES}),
     ("send_email", {"to": "bob@example.com", "thread_id": "g-5", "body": _NO})),
    (("exec", {"command": "himalaya message reply 4711 'We take it'"}),
     ("reply_to_mail", {"thread_id": "4711", "body": _NO})),
    (("send_message", {"channel": "C77", "thread_id": "th-9", "text": _YES}),
     ("respond_to_thread", {"thread_id": "th-9", "text": _NO})),
    (("telegram_send_message", {"chat_id": "-1001", "reply_to_message_id": "9001", "text": _YES}),
     ("telegram_send_message", {"chat_id": "-1001", "reply_to_message_id": "9001", "text": _NO})),
)  # fmt: skip


def _to(address: str, **more: str) -> Asked:
    return "send_email", {"to": address, "subject": "Offer", "body": _YES, **more}


def _chat(chat: str, message: str, text: str) -> Asked:
    return "telegram_send_message", {"chat_id": chat, "reply_to_message_id": message, "text": text}


def _seed(target: str, reply: str, text: str) -> Asked:
    return "message", {"action": "send", "target": target, "message": text, "replyTo": reply}


_THREADS_APART: Final[tuple[tuple[Asked, Asked], ...]] = (
    # where answers go is no thread
    (_to("alice@example.com", replyTo="support@example.com"), _to("bob@example.com", replyTo="support@example.com")),
    (_to("carol@example.com", reply_to="help@example.com"), _to("dave@example.com", reply_to="help@example.com")),
    (_to("erin@example.com", replyTo="Desk <desk@example.com>"), _to("finn@example.com", replyTo="desk@example.com")),
    # messages are counted in each chat
    (_chat("-1001", "5", _YES), _chat("-1002", "5", _NO)),
    (_chat("-1003", "17", _YES), _chat("-1004", "17", _YES)),
    (_chat("-1005", "1", _OTHER), _chat("-1006", "1", _OTHER)),
    (_seed("andy", "5", _YES), _seed("bert", "5", _NO)),
    (_seed("andy", "6", _YES), _seed("bert", "6", _YES)),
    (_seed("andy", "msg-7", _YES), _seed("andy", "msg-8", _NO)),
    (_seed("#ops", "msg-9", _YES), _seed("#ops", "msg-10", _YES)),
    # several threads of one channel
    *((("slack_reply_to_thread", {"channel_id": "C5", "thread_ts": f"1716.{one}", "text": _YES}),
       ("slack_reply_to_thread", {"channel_id": "C5", "thread_ts": f"1716.{one + 50}", "text": text}))
      for one, text in zip(range(1, 7), cycle(_CONTRARY))),
    # reads conflict with nothing
    *((("get_thread", {"thread_id": f"t-{one}"}), ("get_thread", {"thread_id": f"t-{one}"})) for one in range(3)),
    (("gmail_get_thread", {"threadId": "t-1"}), ("read_thread", {"thread_id": "t-1"})),
    (("slack_get_thread_replies", {"channel_id": "C5", "thread_ts": "1716.1"}),
     ("slack_get_thread_replies", {"channel_id": "C5", "thread_ts": "1716.1"})),
    (("list_threads", {"folder": "inbox"}), ("list_threads", {"folder": "inbox"})),
    # a reply here, a mail or a message there
    (("gmail_reply", {"threadId": "g-6", "body": _YES}), _to("alice@example.com")),
    (("reply_to_thread", {"thread_id": "th-1", "message": _YES}), ("send_message", {"channel": "ops", "text": _NO})),
    (("reply_to_mail", {"thread_id": "t-5", "body": _YES}), _to("alice@example.com", thread_id="t-6")),
    (("send_reply", {"thread_id": "900", "content": _YES}), ("delete_file", {"path": "/srv/900"})),
    (("send_reply", {"thread_id": "901", "content": _YES}), ("close_ticket", {"ticket_id": "901"})),
)  # fmt: skip

_LOOKED_AT: Final = """
reply_to_mail thread_id body t-181 t-281 signature=Regards
gmail_reply threadId body f1 f2 from=mira@example.com
send_reply thread_id content th_1501 th_2501 format=markdown
reply_to_thread thread_id message th_1500 th_2500 workspace=acme
email_reply thread_id text t-1 t-11 account=work
reply_to_email email_id body m-112 m-212 mailbox=sales
mail_reply thread body t-185 t-285 account_id=acc-1
post_thread_reply thread_ts text 1716.100 1716.1001 username=mira
respond_to_thread thread_id text th_52 th_53 language=en
send_thread_message thread_id text th_61 th_62 priority=high
"""

# --- channels and people by name -----------------------------------------------------------------------

_SAID: Final = """
slack_send_message channel text general
send_message channel text general
send_discord_message channel content announcements
post_message channel_name text ops
teams_send_message channel message Marketing
telegram_send_message chat text family
send_chat_message room text kitchen
post_to_channel channel message deployments
mattermost_post channel message town-square
matrix_send_message room body !abc:example.org
zulip_send_message stream content engineering
send_message channel_name message random
send_group_message group text hikers
send_message group_name text parents
chat_send room_name text lobby
send_message conversation text design
send_message to text bob
send_message recipient content Carol
send_message user text dave
send_dm user text erin
send_direct_message recipient body Frank
dm_user username message grace
whatsapp_send_message contact text Mum
whatsapp_send_message contact_name message Dad
signal_send_message number text +4915112345678
imessage_send to text +14155550100
send_message person text Heidi
notify_user user message ivan
message_user username text judy
send_message handle text @kim
send_message target message leo
post_announcement channel text all-hands
"""

_SAID_ACROSS: Final[tuple[tuple[Asked, Asked], ...]] = (
    (("slack_send_message", {"channel": "general", "text": _OTHER}),
     ("send_message", {"channel_name": "#general", "message": _OTHER})),
    (("message", {"action": "send", "target": "#general", "message": _OTHER}),
     ("slack_send_message", {"channel": "general", "text": _OTHER})),
    (("message", {"action": "send", "target": "#general", "message": _OTHER}),
     ("send_message", {"channel": "#general", "text": _OTHER})),
    (("send_message", {"to": "andy", "text": _OTHER}),
     ("message", {"action": "send", "target": "andy", "message": _OTHER})),
    (("post_message", {"channel": "ops", "text": _OTHER}),
     ("send_channel_message", {"channel": "ops", "text": _OTHER})),
    # one number, two contrary texts
    (("send_sms", {"to": "+4915112345678", "body": _YES}), ("send_sms", {"to": "+4915112345678", "body": _NO})),
    (("send_sms", {"contact": "Anna", "message": _YES}), ("send_sms", {"contact": "Anna", "message": _NO})),
    (("send_sms", {"phone_number": "+14155550101", "text": _YES}),
     ("send_sms", {"phone_number": "+14155550101", "text": _NO})),
    # a channel is deleted in which another session has just spoken
    (("delete_channel", {"channel": "old-project"}), ("send_message", {"channel": "old-project", "text": _YES})),
    (("delete_channel", {"channel_name": "#pilot"}), ("slack_send_message", {"channel": "pilot", "text": _YES})),
)  # fmt: skip

_SAID_APART: Final[tuple[tuple[Asked, Asked], ...]] = (
    *((("send_message", {"channel": "general", "text": text}), ("send_message", {"channel": "general", "text": text}))
      for text in ("ok", "thanks", "done", "on it")),
    (("get_channel_history", {"channel": "general"}), ("get_channel_history", {"channel": "general"})),
    (("list_messages", {"channel": "ops", "limit": 20}), ("list_messages", {"channel": "ops", "limit": 20})),
    (("read_channel", {"channel": "ops"}), ("send_message", {"channel": "ops", "text": _YES})),
    (("send_message", {"channel": "general", "text": _YES}),
     ("send_message", {"user": "general.electric", "text": _YES})),
    (("send_sms", {"to": "+4915112345678", "body": _YES}), ("send_sms", {"to": "+4915112345679", "body": _YES})),
    (("send_sms", {"contact": "Anna", "message": _YES}), ("send_sms", {"contact": "Bert", "message": _YES})),
    (("delete_channel", {"channel": "old"}), ("send_message", {"channel": "older", "text": _YES})),
    (("slack_send_message", {"channel": "general", "text": _OTHER, "username": "mira"}),
     ("slack_send_message", {"channel": "random", "text": _OTHER, "username": "mira"})),
    (("send_message", {"to": "bob", "text": _OTHER, "from": "office"}),
     ("send_message", {"to": "carol", "text": _OTHER, "from": "office"})),
    (("zulip_send_message", {"stream": "eng", "topic": "release", "content": _YES}),
     ("zulip_send_message", {"stream": "sales", "topic": "release", "content": _YES})),
    (("invite_user", {"channel": "general", "user": "bob"}), ("invite_user", {"channel": "general", "user": "carol"})),
)  # fmt: skip

# --- payments -------------------------------------------------------------------------------------------

_PAID: Final = """
create_refund charge amount ch_3A
create_refund payment_intent amount pi_3B
stripe_create_refund charge amount ch_3C
mcp__stripe__create_refund payment_intent amount pi_3D
refund_payment payment_id amount pay_7
refund transaction amount txn_8
capture_payment payment_intent_id amount pi_9
refund_charge charge_id amount ch_10
pay_invoice invoice amount in_11
pay_bill bill amount bill_12
refund_order order amount ord-13
create_payment invoice_id amount in_14
cancel_payment_intent payment_intent reason pi_15
issue_refund sale amount sale_16
send_payment to amount acme-gmbh
transfer_funds to_account amount DE02100
create_transfer destination amount acct_19
capture_charge charge amount ch_20
charge_customer customer amount cus_21
process_refund order_number amount 10022
reverse_transfer transfer amount tr_23
settle_invoice invoice_number amount R-2024
refund_booking booking amount bk_25
create_payout recipient amount acme
refund_transaction transactionId amount txn_27
refund_purchase purchase amount pu_28
paypal_refund captureId amount 2GG27
square_refund payment_id amount sq_30
create_credit_note invoice amount in_31
pay_subscription subscription amount sub_32
"""

_PAID_ACROSS: Final[tuple[tuple[Asked, Asked], ...]] = (
    (("create_refund", {"charge": "ch_40", "amount": 500}), ("refund_charge", {"charge_id": "ch_40", "amount": 900})),
    (("create_refund", {"payment_intent": "pi_41", "amount": 500}),
     ("cancel_payment_intent", {"payment_intent_id": "pi_41"})),
    (("create_refund", {"charge": "ch_42", "order": "ord-42", "amount": 500}),
     ("refund_order", {"order": "ord-42", "amount": 900})),
    (("pay_invoice", {"recipient": "acme", "invoice": "in_43", "amount": 500}),
     ("pay_invoice", {"invoice": "in_43", "amount": 900})),
)  # fmt: skip

_PAID_APART: Final[tuple[tuple[Asked, Asked], ...]] = (
    *((("create_refund", {"charge": f"ch_{one}", "amount": 500, "currency": "eur", "reason": "duplicate"}),
       ("create_refund", {"charge": f"ch_{one + 1}", "amount": 500, "currency": "eur", "reason": "duplicate"}))
      for one in range(50, 56, 2)),
    (("create_refund", {"payment_intent": "pi_60", "amount": 1, "idempotency_key": "k"}),
     ("create_refund", {"payment_intent": "pi_61", "amount": 1, "idempotency_key": "k"})),
    (("send_payment", {"from_account": "DE01", "to": "acme", "amount": 10}),
     ("send_payment", {"from_account": "DE01", "to": "globex", "amount": 10})),
    (("transfer_funds", {"source_account": "DE01", "to_account": "DE05", "amount": 10}),
     ("transfer_funds", {"source_account": "DE01", "to_account": "DE06", "amount": 10})),
    (("create_payment", {"payment_method": "card_1", "invoice": "in_62", "amount": 10}),
     ("create_payment", {"payment_method": "card_1", "invoice": "in_63", "amount": 10})),
    (("pay_invoice", {"card_number": "4111111111111111", "invoice": "in_64", "amount": 10}),
     ("pay_invoice", {"card_number": "4111111111111111", "invoice": "in_65", "amount": 10})),
    (("create_refund", {"api_key": "sk_live_51H8xYzAbCdEf", "charge": "ch_66", "amount": 10}),
     ("create_refund", {"api_key": "sk_live_51H8xYzAbCdEf", "charge": "ch_67", "amount": 10})),
    (("get_charge", {"charge": "ch_68"}), ("get_charge", {"charge": "ch_68"})),
    (("list_refunds", {"charge": "ch_68"}), ("list_refunds", {"charge": "ch_68"})),
    (("charge_customer", {"customer": "cus_69", "amount": 10, "description": "plan"}),
     ("charge_customer", {"customer": "cus_70", "amount": 10, "description": "plan"})),
    (("create_refund", {"charge": "ch_71", "amount": 10, "metadata": {"case": "1"}}),
     ("create_refund", {"charge": "ch_72", "amount": 10, "metadata": {"case": "1"}})),
    (("refund_order", {"order": "ord-73", "amount": 10, "status": "late"}),
     ("refund_order", {"order": "ord-74", "amount": 10, "status": "late"})),
)  # fmt: skip

# --- ids by the shape of their names --------------------------------------------------------------------

_IDS: Final = """
start_vm vmid node 100
stop_vm vmid reason 101
update_user uid note u-17
delete_user userid reason 4711
update_post slug body hello-world
publish_article slug notes spring-news
update_dashboard dashboardUid title abc123
archive_card cardId reason c-9
update_issue issue_key summary SHOP-7
update_project project_key description SHOP
update_component componentKey description cmp-1
delete_object object_key reason img-1.png
rename_file fileKey title fk_99
cancel_job jobid reason 88
update_app appid description app-5
update_page pageid body 1200
update_organization orgid description 31
update_device deviceId label dev-2
update_record recordId value rec9
update_ticket ticketNo note T-10
update_product sku description SKU-1
update_node guid label 6f9619ff
delete_webhook webhookId reason wh-3
update_flag flagKey description new-checkout
update_rule ruleId description r-4
update_space spaceKey description ENG
update_monitor monitorUid title mon-8
restart_container containerId reason cafe01
update_resource arn description arn:aws:s3:::x
update_lead leadId note l-77
update_server serverid label s-3
assign_seat seatId note 12A
"""

_IDS_ACROSS: Final[tuple[tuple[Asked, Asked], ...]] = (
    (("start_vm", {"vmid": 100}), ("stop_vm", {"vm_id": 100})),
    (("update_user", {"uid": "u-1", "email": "a@example.com"}),
     ("update_user", {"userId": "u-1", "email": "b@example.com"})),
    (("update_vm", {"node": "pve1", "vmid": "120", "memory": 2048}), ("delete_vm", {"node": "pve1", "vmid": "120"})),
    (("update_issue", {"issueKey": "SHOP-8", "priority": "high"}), ("close_issue", {"issue_key": "SHOP-8"})),
)  # fmt: skip

_IDS_APART: Final[tuple[tuple[Asked, Asked], ...]] = (
    # what a thing has is not which thing it is
    (("upgrade_postgres", {"server_id": "a", "version": 16}), ("upgrade_postgres", {"server_id": "b", "version": 16})),
    (("set_version", {"app_id": "a", "version": "2.0"}), ("set_version", {"app_id": "b", "version": "2.0"})),
    (("update_version", {"package_id": "a", "version": 16}), ("update_version", {"package_id": "b", "version": 16})),
    (("upgrade_version", {"version": 16, "server": "a"}), ("upgrade_version", {"version": 16, "server": "b"})),
    (("update_range", {"spreadsheet_id": "s-1", "range": "A1", "values": [[1]]}),
     ("update_range", {"spreadsheet_id": "s-2", "range": "A1", "values": [[1]]})),
    (("write_range", {"spreadsheetId": "s-3", "range": "B2:C3", "values": [[1]]}),
     ("write_range", {"spreadsheetId": "s-4", "range": "B2:C3", "values": [[2]]})),
    (("clear_range", {"sheet_id": "s-5", "range": "A1:Z9"}), ("clear_range", {"sheet_id": "s-6", "range": "A1:Z9"})),
    (("format_range", {"file": "/tmp/a.xlsx", "range": "A1"}),
     ("format_range", {"file": "/tmp/b.xlsx", "range": "A1"})),
    (("set_color", {"light_id": "l-1", "color": "red"}), ("set_color", {"light_id": "l-2", "color": "red"})),
    (("set_priority", {"task_id": "k-1", "priority": "high"}),
     ("set_priority", {"task_id": "k-2", "priority": "high"})),
    (("update_status", {"order_id": "o-1", "status": "sent"}),
     ("update_status", {"order_id": "o-2", "status": "sent"})),
    (("resize_disk", {"disk_id": "d-1", "size": "20G"}), ("resize_disk", {"disk_id": "d-2", "size": "20G"})),
    (("set_size", {"cluster_id": "k-1", "size": 3}), ("set_size", {"cluster_id": "k-2", "size": 3})),
    (("set_level", {"player_id": "p-1", "level": 7}), ("set_level", {"player_id": "p-2", "level": 7})),
    (("set_language", {"user_id": "u-1", "language": "de"}), ("set_language", {"user_id": "u-2", "language": "de"})),
    (("set_title", {"doc_id": "d-1", "title": "Report"}), ("set_title", {"doc_id": "d-2", "title": "Report"})),
    (("update_description", {"item_id": "i-1", "description": "New"}),
     ("update_description", {"item_id": "i-2", "description": "New"})),
    (("set_value", {"cell_id": "c-1", "value": "7"}), ("set_value", {"cell_id": "c-2", "value": "7"})),
    (("set_mode", {"device_id": "d-1", "mode": "eco"}), ("set_mode", {"device_id": "d-2", "mode": "eco"})),
    (("set_format", {"column_id": "c-1", "format": "0.00"}), ("set_format", {"column_id": "c-2", "format": "0.00"})),
    (("set_timezone", {"user_id": "u-1", "timezone": "UTC"}), ("set_timezone", {"user_id": "u-2", "timezone": "UTC"})),
    (("set_rating", {"film_id": "f-1", "rating": 5}), ("set_rating", {"film_id": "f-2", "rating": 5})),
    (("update_formula", {"sheet_id": "s-1", "formula": "=A1"}),
     ("update_formula", {"sheet_id": "s-2", "formula": "=A1"})),
    (("set_position", {"layer_id": "y-1", "position": 3}), ("set_position", {"layer_id": "y-2", "position": 3})),
    # words that only end in "id"
    (("update_invoice", {"invoice_id": "v-1", "paid": "yes"}),
     ("update_invoice", {"invoice_id": "v-2", "paid": "yes"})),
    (("set_paid", {"paid": "2024-05-01", "invoice": "in-1"}), ("set_paid", {"paid": "2024-05-01", "invoice": "in-2"})),
    (("update_layout", {"layout_id": "y-1", "grid": "12"}), ("update_layout", {"layout_id": "y-2", "grid": "12"})),
    (("update_coupon", {"coupon_id": "q-1", "valid": "yes"}), ("update_coupon", {"coupon_id": "q-2", "valid": "yes"})),
    (("place_bid", {"auction_id": "a-1", "bid": "90"}), ("place_bid", {"auction_id": "a-2", "bid": "90"})),
    (("update_car", {"car_id": "r-1", "engine": "hybrid"}), ("update_car", {"car_id": "r-2", "engine": "hybrid"})),
    (("set_hybrid", {"hybrid": "on", "plan": "a"}), ("set_hybrid", {"hybrid": "on", "plan": "b"})),
    # keys that name no thing
    (("put_item", {"table": "t1", "item_id": "i-1", "sort_key": "2024"}),
     ("put_item", {"table": "t1", "item_id": "i-2", "sort_key": "2024"})),
    (("update_item", {"item_id": "i-3", "partition_key": "eu"}),
     ("update_item", {"item_id": "i-4", "partition_key": "eu"})),
    (("update_item", {"item_id": "i-5", "range_key": "7"}), ("update_item", {"item_id": "i-6", "range_key": "7"})),
    (("update_item", {"item_id": "i-7", "hash_key": "7"}), ("update_item", {"item_id": "i-8", "hash_key": "7"})),
    (("update_doc", {"doc_id": "d-1", "routing_key": "eu"}), ("update_doc", {"doc_id": "d-2", "routing_key": "eu"})),
    (("create_order", {"sku": "S-1", "idempotencyKey": "k-1"}),
     ("create_order", {"sku": "S-2", "idempotencyKey": "k-1"})),
    (("update_order", {"order_id": "o-3", "idempotency_key": "k"}),
     ("update_order", {"order_id": "o-4", "idempotency_key": "k"})),
    (("update_list", {"list_id": "x-1", "sortKey": "name"}), ("update_list", {"list_id": "x-2", "sortKey": "name"})),
    (("update_doc", {"doc_id": "d-3", "orderKey": "a0"}), ("update_doc", {"doc_id": "d-4", "orderKey": "a0"})),
    (("update_job", {"job_id": "j-1", "dedupe_key": "k"}), ("update_job", {"job_id": "j-2", "dedupe_key": "k"})),
    (("update_text", {"text_id": "x-1", "translation_key": "hi"}),
     ("update_text", {"text_id": "x-2", "translation_key": "hi"})),
    # secrets
    (("update_user", {"uid": "u-3", "password": "hunter22"}), ("update_user", {"uid": "u-4", "password": "hunter22"})),
    (("update_site", {"slug": "a", "api_key": "k-123456789"}),
     ("update_site", {"slug": "b", "api_key": "k-123456789"})),
    (("sync_account", {"access_token": "tok-12345678", "account_id": "a"}),
     ("sync_account", {"access_token": "tok-12345678", "account_id": "b"})),
    (("update_repo", {"repo_id": "r-1", "deploy_key": "ssh-rsa AAAA"}),
     ("update_repo", {"repo_id": "r-2", "deploy_key": "ssh-rsa AAAA"})),
    (("rotate_disk", {"disk_id": "d-1", "encryption_key": "kkkkkkkk"}),
     ("rotate_disk", {"disk_id": "d-2", "encryption_key": "kkkkkkkk"})),
    (("register_app", {"license_key": "L-1234-5678", "app_id": "a"}),
     ("register_app", {"license_key": "L-1234-5678", "app_id": "b"})),
    (("verify_card", {"card_number": "4111111111111111", "user_id": "a"}),
     ("verify_card", {"card_number": "4111111111111111", "user_id": "b"})),
    (("update_wallet", {"wallet_id": "w-1", "otp": "123456"}),
     ("update_wallet", {"wallet_id": "w-2", "otp": "123456"})),
    # paging and places
    (("export_rows", {"page_number": 3, "file": "/tmp/c.csv"}),
     ("export_rows", {"page_number": 3, "file": "/tmp/d.csv"})),
    (("update_vm", {"node": "pve1", "vmid": 130}), ("update_vm", {"node": "pve1", "vmid": 131})),
    (("update_page", {"workspace_id": "w", "pageid": "1"}), ("update_page", {"workspace_id": "w", "pageid": "2"})),
    (("get_user", {"uid": "u-5"}), ("get_user", {"uid": "u-5"})),
    (("get_vm", {"vmid": 100}), ("list_vms", {"node": "pve1"})),
)  # fmt: skip

# --- containers and what is in them ---------------------------------------------------------------------

_HELD: Final[tuple[tuple[Asked, Asked], ...]] = (
    (("delete_base", {"base_id": "app1"}),
     ("update_record", {"base_id": "app1", "table_id": "tbl1", "record_id": "rec1", "fields": {"a": 1}})),
    (("airtable_delete_base", {"baseId": "app2"}),
     ("airtable_update", {"baseId": "app2", "tableId": "tbl2", "recordId": "rec2"})),
    (("delete_table", {"base_id": "app3", "table_id": "tbl3"}),
     ("update_record", {"base_id": "app3", "table_id": "tbl3", "record_id": "rec3"})),
    (("delete_table", {"table_id": "tbl4"}),
     ("update_record", {"base_id": "app4", "table_id": "tbl4", "record_id": "rec4"})),
    (("delete_base", {"base_id": "app5"}),
     ("create_record", {"base_id": "app5", "table_id": "tbl5", "fields": {"a": 1}})),
    (("delete_board", {"board_id": "b-1"}), ("update_card", {"board_id": "b-1", "card_id": "c-1", "title": "x"})),
    (("delete_project", {"project_id": "p-1"}), ("create_task", {"project_id": "p-1", "title": "Call Anna"})),
    (("delete_project", {"project_id": "p-2"}), ("update_task", {"project_id": "p-2", "task_id": "k-2", "title": "y"})),
    (("delete_bucket", {"bucket": "logs"}), ("put_object", {"bucket": "logs", "key": "a.txt", "body": "x"})),
    (("delete_bucket", {"bucket_name": "media"}), ("delete_object", {"bucket_name": "media", "object_key": "b.png"})),
    (("delete_workspace", {"workspace_id": "w-1"}),
     ("update_page", {"workspace_id": "w-1", "page_id": "g-1", "body": "x"})),
    (("delete_playlist", {"playlist_id": "l-1"}),
     ("update_track", {"playlist_id": "l-1", "track_id": "t-1", "position": 3})),
    (("delete_calendar", {"calendar_id": "cal-1"}),
     ("update_event", {"calendar_id": "cal-1", "event_id": "ev-1", "title": "x"})),
    (("delete_list", {"list_id": "li-1"}), ("update_item", {"list_id": "li-1", "item_id": "it-1", "title": "x"})),
    (("delete_notebook", {"notebook_id": "n-1"}),
     ("update_note", {"notebook_id": "n-1", "note_id": "no-1", "body": "x"})),
    (("delete_album", {"album_id": "al-1"}),
     ("update_photo", {"album_id": "al-1", "photo_id": "ph-1", "caption": "x"})),
    (("delete_spreadsheet", {"spreadsheet_id": "s-1"}),
     ("update_row", {"spreadsheet_id": "s-1", "row_id": "7", "values": [1]})),
    (("delete_cluster", {"cluster_id": "k-1"}),
     ("scale_service", {"cluster_id": "k-1", "service_id": "web", "count": 3})),
    (("delete_team", {"team_id": "te-1"}), ("update_channel", {"team_id": "te-1", "channel_id": "ch-1", "topic": "x"})),
    (("delete_collection", {"collection_id": "co-1"}), ("update_entry", {"collection_id": "co-1", "entry_id": "en-1"})),
    (("drop_database", {"database_id": "db-1"}), ("update_document", {"database_id": "db-1", "document_id": "do-1"})),
    (("delete_space", {"space_key": "ENG"}), ("update_page", {"space_key": "ENG", "page_id": "g-2", "body": "x"})),
    (("update_record", {"base_id": "app6", "table_id": "tbl6", "record_id": "rec6", "fields": {"a": 1}}),
     ("update_record", {"base_id": "app6", "table_id": "tbl6", "record_id": "rec6", "fields": {"a": 2}})),
    (("airtable_update", {"baseId": "app7", "tableId": "tbl7", "recordId": "rec7", "fields": {"a": 1}}),
     ("airtable_update", {"baseId": "app7", "tableId": "tbl7", "recordId": "rec7", "fields": {"a": 2}})),
    (("update_record", {"record_id": "rec8", "fields": {"a": 1}}),
     ("update_record", {"base_id": "app8", "record_id": "rec8", "fields": {"a": 2}})),
    (("update_base", {"base_id": "app9", "name": "CRM"}), ("update_base", {"base_id": "app9", "name": "Sales"})),
    (("update_board", {"workspace_id": "w-2", "board_id": "b-2", "name": "A"}),
     ("update_board", {"workspace_id": "w-2", "board_id": "b-2", "name": "B"})),
    (("put_object", {"bucket": "logs", "key": "c.txt", "body": "x"}),
     ("put_object", {"bucket": "logs", "key": "c.txt", "body": "y"})),
)  # fmt: skip

_HELD_APART: Final[tuple[tuple[Asked, Asked], ...]] = (
    # another thing of one container
    *((("airtable_update", {"baseId": "app1", "tableId": "tbl1", "recordId": f"rec{one}", "fields": {"a": 1}}),
       ("airtable_update", {"baseId": "app1", "tableId": "tbl1", "recordId": f"rec{one + 1}", "fields": {"a": 1}}))
      for one in range(10, 16, 2)),
    *(((f"update_{part}", {f"{whole}_id": "w-1", f"{part}_id": "x-1", "title": "New"}),
       (f"update_{part}", {f"{whole}_id": "w-1", f"{part}_id": "x-2", "title": "New"}))
      for whole, part in (("base", "record"), ("board", "card"), ("project", "task"), ("workspace", "page"),
                          ("playlist", "track"), ("calendar", "reminder"), ("list", "item"), ("notebook", "note"),
                          ("album", "photo"), ("spreadsheet", "sheet"), ("cluster", "service"), ("team", "member"),
                          ("collection", "entry"), ("database", "document"), ("space", "page"), ("store", "product"),
                          ("course", "lesson"), ("folder", "doc"), ("group", "contact"), ("queue", "job"))),
    # the container of another
    *(((f"delete_{whole}", {f"{whole}_id": "w-1"}),
       (f"update_{part}", {f"{whole}_id": "w-2", f"{part}_id": "x-1", "title": "New"}))
      for whole, part in (("base", "record"), ("board", "card"), ("project", "task"), ("workspace", "page"),
                          ("playlist", "track"), ("list", "item"), ("notebook", "note"), ("album", "photo"),
                          ("spreadsheet", "sheet"), ("cluster", "service"), ("collection", "entry"),
                          ("database", "document"), ("bucket", "object"), ("w", "x"))),
    # what the container is called, and what is in it
    *(((f"rename_{whole}", {f"{whole}_id": "w-1", "name": "New"}),
       (f"update_{part}", {f"{whole}_id": "w-1", f"{part}_id": "x-1", "title": "New"}))
      for whole, part in (("base", "record"), ("board", "card"), ("project", "task"), ("workspace", "page"),
                          ("playlist", "track"), ("list", "item"), ("notebook", "note"), ("collection", "entry"))),
    # two more in one container
    *(((f"create_{part}", {f"{whole}_id": "w-1", "title": "Call Anna about the offer of last week"}),
       (f"create_{part}", {f"{whole}_id": "w-1", "title": "Order paper for the printer on floor two"}))
      for whole, part in (("base", "record"), ("board", "card"), ("project", "task"), ("workspace", "page"),
                          ("list", "item"), ("notebook", "note"), ("collection", "entry"))),
    # numbers and names that each container counts for itself
    (("update_row", {"spreadsheet_id": "s-1", "row": 5, "values": [1]}),
     ("update_row", {"spreadsheet_id": "s-2", "row": 5, "values": [2]})),
    (("update_row", {"table_id": "t-1", "row_number": 5, "values": [1]}),
     ("update_row", {"table_id": "t-2", "row_number": 5, "values": [2]})),
    (("update_cell", {"sheet_id": "s-1", "cell": "A1", "value": 1}),
     ("update_cell", {"sheet_id": "s-2", "cell": "A1", "value": 1})),
    (("update_sheet", {"spreadsheet_id": "s-1", "sheet_name": "Sheet1"}),
     ("update_sheet", {"spreadsheet_id": "s-2", "sheet_name": "Sheet1"})),
    (("delete_column", {"table_id": "t-1", "column": "price"}),
     ("delete_column", {"table_id": "t-2", "column": "price"})),
    (("put_object", {"bucket": "one", "key": "a.txt", "body": "x"}),
     ("put_object", {"bucket": "two", "key": "a.txt", "body": "y"})),
    (("delete_object", {"bucket_name": "one", "object_key": "a.txt"}),
     ("delete_object", {"bucket_name": "two", "object_key": "a.txt"})),
    (("put_object", {"bucket": "one", "key": "d.txt", "body": "x"}),
     ("put_object", {"bucket": "one", "key": "e.txt", "body": "y"})),
    # reads
    (("get_record", {"base_id": "app1", "record_id": "rec1"}),
     ("get_record", {"base_id": "app1", "record_id": "rec1"})),
    (("list_records", {"base_id": "app1", "table_id": "tbl1"}),
     ("list_records", {"base_id": "app1", "table_id": "tbl1"})),
    (("get_base", {"base_id": "app1"}),
     ("update_record", {"base_id": "app1", "record_id": "rec1", "fields": {"a": 1}})),
)  # fmt: skip


def _other_values(rows: str) -> str:
    """The rows with a second value: what they name is another thing then."""
    return "\n".join(f"{line} {line.split()[3]}7" for line in rows.strip().splitlines())


def _each(kind: str, pairs: tuple[tuple[Asked, Asked], ...], *, collide: bool) -> list[Named]:
    return [Named(kind, collide, one, other, collide and _ends(one, other)) for one, other in pairs]


def _ends(one: Asked, other: Asked) -> bool:
    return one[0].startswith("delete_") and other[0].startswith(("create_", "send_", "slack_send_"))


ALL: Final = (
    *_pairs("thread", _REPLIES, collide=True, texts=_CONTRARY),
    *_each("thread", _ACROSS, collide=True),
    *_pairs("thread", _other_values(_REPLIES), collide=False, texts=(_YES, _YES)),
    *_pairs("thread", _LOOKED_AT, collide=False, texts=_CONTRARY),
    *_each("thread", _THREADS_APART, collide=False),
    *_pairs("channel", _SAID, collide=True, texts=(_OTHER, _OTHER)),
    *_each("channel", _SAID_ACROSS, collide=True),
    *_pairs("channel", _other_values(_SAID), collide=False, texts=(_OTHER, _OTHER)),
    *_pairs("channel", _SAID, collide=False, texts=_CONTRARY),
    *_each("channel", _SAID_APART, collide=False),
    *_pairs("payment", _PAID, collide=True, texts=("500", "900")),
    *_each("payment", _PAID_ACROSS, collide=True),
    *_pairs("payment", _other_values(_PAID), collide=False, texts=("500", "500")),
    *_each("payment", _PAID_APART, collide=False),
    *_pairs("id", _IDS, collide=True, texts=("spring", "autumn")),
    *_each("id", _IDS_ACROSS, collide=True),
    *_pairs("id", _other_values(_IDS), collide=False, texts=("spring", "spring")),
    *_each("id", _IDS_APART, collide=False),
    *_each("container", _HELD, collide=True),
    *_each("container", _HELD_APART, collide=False),
)
