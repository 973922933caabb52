"""Commitments: a side taken days ago, and the session that now takes the other. Told as ``scenarios`` are.

Each positive is one contradiction that must not run unannounced; each negative is ordinary work on the same kinds of
things that must pass. They were written before commitments were, from the calls of calendars, shops and travel desks.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bench.quality.scenarios import Expect, Scenario, Step

HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
ENDS: Final = "(session ends)"
"""The tool of a step that says that its session has ended."""
_FIRST: Final = 1_800_000_000
"""Unix seconds at which a scene's clock begins."""

_GOOGLE: Final = "mcp__google-calendar__respond-to-event"
_CAL: Final[dict[str, Any]] = {"calendarId": "team@example.com"}


def _day(number: int, clock: str = "10:00", zone: str = "Z") -> str:
    """A moment so many days after the clock's first day, as calendars write it."""
    return f"{_date(number)}T{clock}:00{zone}"


def _date(number: int) -> str:
    return f"{datetime.fromtimestamp(_FIRST, UTC) + timedelta(days=number):%Y-%m-%d}"


def _call(
    who: str,
    tool: str,
    expect: Expect = "runs",
    *,
    after: float = 20,
    outcome: str = "done",
    result: Any = None,
    more: dict[str, Any] | None = None,
    **params: Any,
) -> Step:
    return Step(who, tool, params, expect, after, outcome, more or {}, result)


Told = list[tuple[str, tuple[Step, ...]]]
Pair = tuple[str, str, dict[str, Any], str, dict[str, Any]]
_CONTRARY: Final[tuple[Pair, ...]] = (
    ("an invitation", "accept_invitation", {"event_id": "ev-7"}, "decline_invitation", {"event_id": "ev-7"}),
    ("an invitation, the other way", "decline_invite", {"invite_id": "in-3"}, "accept_invite", {"invite_id": "in-3"}),
    ("an answer in an argument", "respond_to_event", {"event_id": "ev-8", "response": "accepted"},
     "respond_to_event", {"event_id": "ev-8", "response": "declined"}),
    ("an MCP calendar", _GOOGLE, {"eventId": "abc", **_CAL, "response": "accepted"},
     _GOOGLE, {"eventId": "abc", **_CAL, "response": "declined"}),
    ("an RSVP", "rsvp", {"event_id": "party", "status": "yes"}, "rsvp", {"event_id": "party", "status": "no"}),
    ("a tool with actions", "calendar", {"action": "accept", "event_id": "ev-9"},
     "calendar", {"action": "decline", "event_id": "ev-9"}),
    ("a meeting", "accept_meeting", {"meeting_id": "m-1"}, "cancel_meeting", {"meeting_id": "m-1"}),
    ("an event that is called off", "accept_event", {"event_id": "ev-10"}, "delete_event", {"event_id": "ev-10"}),
    ("a booking", "confirm_booking", {"booking_id": "B-4"}, "cancel_booking", {"booking_id": "B-4"}),
    ("a reservation", "book_reservation", {"reservation_id": "R-118"}, "cancel_reservation",
        {"reservation_id": "R-118"}),
    ("an order", "place_order", {"order_id": "o-77"}, "cancel_order", {"order_id": "o-77"}),
    ("an order that is confirmed", "confirm_order", {"order_id": "#W12"}, "cancel_pending_order",
     {"order_id": "#W12", "reason": "no longer needed"}),
    ("an order that is given up first", "cancel_order", {"order_id": "o-78"}, "confirm_order", {"order_id": "o-78"}),
    ("an appointment", "confirm_appointment", {"appointment_id": "ap-5"}, "cancel_appointment",
     {"appointment_id": "ap-5"}),
)  # fmt: skip

_DELAYS: Final = (("two hours", 2 * HOUR), ("a day", DAY), ("three weeks", 21 * DAY))


def _contradictions() -> list[Scenario]:
    made: Told = []
    for name, first, said, then, answered in _CONTRARY:
        for later, seconds in _DELAYS:
            made.append((f"{name}, after {later}", (
                _call("mira/chat", first, **said),
                _call("doug/mail", then, "told", after=seconds, **answered),
            )))  # fmt: skip
    return _numbered("promises", made)


def _slots() -> list[Scenario]:
    at: dict[str, Any] = {"start": _day(20), "end": _day(20, "11:00")}
    half: dict[str, Any] = {"start": _day(20, "10:30"), "end": _day(20, "11:30")}
    room = {"room_id": "r7", **at}
    google = {"start": {"dateTime": _day(20)}, "end": {"dateTime": _day(20, "11:00")}}
    doctor = {"slot_id": "s-14"}
    pairs: list[tuple[str, float, str, dict[str, Any], str, dict[str, Any]]] = [
        ("two meetings, 90 minutes apart", 1.5 * HOUR, "create_event", {"title": "Bank", **at},
         "create_event", {"title": "Dentist", **at}),
        ("two meetings that overlap by half", DAY, "create_event", {"title": "Bank", **at},
         "create_event", {"title": "Dentist", **half}),
        ("two meetings, made by two tools", 5 * DAY, "schedule_meeting",
         {"attendees": ["a@example.com"], "start_time": _day(20), "duration": 45},
         "create_event", {"title": "Dentist", **at}),
        ("two meetings of an MCP calendar", DAY, "mcp__google-calendar__create-event", {"summary": "Bank", **google,
            **_CAL},
         "mcp__google-calendar__create-event", {"summary": "Planning of the year", **google, **_CAL}),
        ("one room, twice", 2 * DAY, "book_room", {**room, "title": "Bank"}, "book_room", {**room, "title": "Choir"}),
        ("a doctor's slot, twice", DAY, "book_appointment", {**doctor, "patient": "anna"},
         "book_appointment", {**doctor, "patient": "bert"}),
        ("a delivery slot, twice", 3 * HOUR, "book_slot", {"slot_id": "d-3", "for": "flowers"},
         "book_slot", {"slot_id": "d-3", "for": "groceries of the week"}),
        ("an event is moved to where another is", DAY, "create_event", {"title": "Bank", **at},
         "update_event", {"event_id": "ev-40", **half}),
        ("a meeting with an offset of its zone", 2 * DAY, "create_event",
         {"title": "Bank", "start": _day(20, "12:00", "+02:00"), "end": _day(20, "13:00", "+02:00")},
         "create_event", {"title": "Dentist", **at}),
    ]  # fmt: skip
    made: Told = [
        (f"slots: {name}", (_call("mira/chat", one, **p), _call("doug/mail", two, "told", after=seconds, **q)))
        for name, seconds, one, p, two, q in pairs
    ]
    return _numbered("promises", made, 100)


def _dated() -> list[Scenario]:
    """Yield cases of commitments that last longer than thirty days, found by who made them and by their id."""
    coming: dict[str, Any] = {"start": _day(45), "end": _day(45, "11:00")}
    made = [
        ("the call tells a date in six weeks", (
            _call("mira/chat", "accept_event", event_id="far", **coming),
            _call("doug/mail", "decline_event", "told", after=40 * DAY, event_id="far"),
        )),
        ("the result tells a date in six weeks", (
            _call("mira/chat", "accept_event", event_id="far-2", result={"status": "ok", "event": {"id": "far-2",
                **coming}}),
            _call("doug/mail", "decline_event", "told", after=40 * DAY, event_id="far-2"),
        )),
        ("the result is a text of JSON", (
            _call("mira/chat", "accept_event", event_id="far-3",
                  result=json.dumps({"event": {"id": "far-3", "start": _day(45)}})),
            _call("doug/mail", "decline_event", "told", after=40 * DAY, event_id="far-3"),
        )),
        ("a stay that ends in six weeks", (
            _call("mira/chat", "confirm_booking", booking_id="H-1", check_in=_date(36), check_out=_date(45)),
            _call("doug/mail", "cancel_booking", "told", after=36 * DAY, booking_id="H-1"),
        )),
        ("an event that was made is deleted by its new id", (
            _call("mira/chat", "create_event", title="Bank", start=_day(20), end=_day(20, "11:00"),
                result={"id": "new-1"}),
            _call("doug/mail", "delete_event", "told", after=DAY, event_id="new-1"),
        )),
        ("a meeting that was scheduled is cancelled by its new id", (
            _call("mira/chat", "schedule_meeting", attendees=["a@example.com"], start_time=_day(20), duration=30,
                  result={"event": {"id": "new-2", "status": "confirmed"}}),
            _call("doug/mail", "cancel_meeting", "told", after=3 * DAY, meeting_id="new-2"),
        )),
        ("the owner's session ended, but another instance contradicts", (
            _call("mira/chat", "accept_invitation", event_id="ev-50"),
            _call("mira/chat", ENDS),
            _call("doug/mail", "decline_invitation", "told", after=DAY, event_id="ev-50"),
        )),
        ("the owner's session goes on, and a sibling contradicts", (
            _call("mira/chat", "accept_invitation", event_id="ev-51"),
            _call("mira/mail", "decline_invitation", "told", after=DAY, event_id="ev-51"),
        )),
        ("the third contradicts the second, who has prevailed", (
            _call("mira/chat", "accept_invitation", event_id="ev-52"),
            _call("doug/mail", "decline_invitation", "told", after=DAY, event_id="ev-52"),
            _call("doug/mail", "decline_invitation", event_id="ev-52"),
            _call("anna/desk", "accept_invitation", "told", after=DAY, event_id="ev-52"),
        )),
        ("many other things were done on the event meanwhile", (
            _call("mira/chat", "accept_invitation", event_id="ev-53"),
            *(_call(f"s{n}/x", "get_event", after=HOUR, event_id="ev-53") for n in range(6)),
            _call("doug/mail", "decline_invitation", "told", after=DAY, event_id="ev-53"),
        )),
        ("a declared side", (
            _call("mira/chat", "update_document", more={"commits": {"side": "approve",
                "what": "the text of the offer"}},
                  document_id="offer"),
            _call("doug/mail", "update_document", "told", after=3 * DAY, more={"commits": {"side": "reject"}},
                  document_id="offer"),
        )),
        ("a declared side of an event", (
            _call("mira/chat", "update_event", more={"commits": {"side": "accept"}}, event_id="ev-54", notes="we come"),
            _call("doug/mail", "decline_event", "told", after=3 * DAY, event_id="ev-54"),
        )),
        ("a side declared until a year from now", (
            _call("mira/chat", "update_document", document_id="lease",
                  more={"commits": {"side": "accept", "until": _FIRST + 300 * DAY}}),
            _call("doug/mail", "update_document", "told", after=200 * DAY, document_id="lease",
                  more={"commits": {"side": "decline"}}),
        )),
        ("a side declared in the params, as the original does", (
            _call("mira/chat", "update_document", document_id="plan", _commitment={"side": "accept"}),
            _call("doug/mail", "update_document", "told", after=DAY, document_id="plan",
                _commitment={"side": "decline"}),
        )),
    ]  # fmt: skip
    return _numbered("promises", made, 200)


def _over() -> list[Scenario]:
    """It is over: by its date, by thirty days, by what undid it, or because its owner says so."""
    soon: dict[str, Any] = {"start": _day(3), "end": _day(3, "11:00")}
    made: Told = []
    for name, first, said, then, answered in _CONTRARY:
        made += [
            (f"{name}: 31 days later", (
                _call("mira/chat", first, **said),
                _call("doug/mail", then, "passes", after=31 * DAY, **answered),
            )),
            (f"{name}: the same session thinks again", (
                _call("mira/chat", first, **said),
                _call("mira/chat", then, "passes", after=DAY, **answered),
            )),
            (f"{name}: its session has ended, the next of the instance decides", (
                _call("mira/chat", first, **said),
                _call("mira/chat", ENDS),
                _call("mira/later", then, "passes", after=DAY, **answered),
            )),
            (f"{name}: it had failed", (
                _call("mira/chat", first, outcome="error:404 not found", **said),
                _call("doug/mail", then, "passes", after=2 * HOUR, **answered),
            )),
        ]  # fmt: skip
    for number, (first, then, told) in enumerate((
        ("accept_event", "decline_event", soon),
        ("accept_invitation", "decline_invitation", soon),
        ("decline_event", "accept_event", soon),
        ("confirm_booking", "cancel_booking", {"check_in": _date(1), "check_out": _date(3)}),
        ("confirm_appointment", "cancel_appointment", {"date": _date(2), "time": "09:30"}),
    )):  # fmt: skip
        noun = {"booking": "booking_id", "appointment": "appointment_id"}.get(first.split("_")[1], "event_id")
        one: dict[str, Any] = {noun: f"past-{number}"}
        made += [
            (f"{first}: the call told its date, which has passed", (
                _call("mira/chat", first, **one, **told),
                _call("doug/mail", then, "passes", after=5 * DAY, **one),
            )),
            (f"{first}: the result told its date, which has passed", (
                _call("mira/chat", first, result={"ok": True, "item": {"id": f"past-{number}", **told}}, **one),
                _call("doug/mail", then, "passes", after=5 * DAY, **one),
            )),
            (f"{first}: another contradicted it, and a third agrees with that one", (
                _call("mira/chat", first, **one),
                _call("doug/mail", then, "told", after=DAY, **one),
                _call("doug/mail", then, **one),
                _call("anna/desk", then, "passes", after=3 * DAY, **one),
            )),
        ]  # fmt: skip
    made += [
        ("a meeting is over, its slot is looked at as the past", (
            _call("mira/chat", "create_event", title="Bank", **soon),
            _call("doug/mail", "create_event", "passes", after=5 * DAY, title="Protocol of the bank", **soon),
        )),
        ("a side was declared until yesterday", (
            _call("mira/chat", "update_document", document_id="lease",
                  more={"commits": {"side": "accept", "until": _FIRST + 2 * DAY}}),
            _call("doug/mail", "update_document", "passes", after=3 * DAY, document_id="lease",
                  more={"commits": {"side": "decline"}}),
        )),
    ]  # fmt: skip
    return _numbered("kept", made)


def _apart() -> list[Scenario]:
    """Other things, other slots, the same side, and what is no commitment."""
    at: dict[str, Any] = {"start": _day(20), "end": _day(20, "11:00")}
    made: Told = []
    for name, first, said, then, answered in _CONTRARY:
        other: dict[str, Any] = {
            k: (f"{v}-other" if k.lower().endswith("id") and not k.startswith("cal") else v)
            for k, v in answered.items()
        }
        made += [
            (f"{name}: another one", (
                _call("mira/chat", first, **said),
                _call("doug/mail", then, "passes", after=DAY, **other),
            )),
            (f"{name}: the same side two days later", (
                _call("mira/chat", first, **said),
                _call("doug/mail", first, "passes", after=2 * DAY, **said),
            )),
        ]  # fmt: skip
    slots: list[tuple[str, str, dict[str, Any], str, dict[str, Any]]] = [
        ("the next hour", "create_event", {"title": "Bank", **at},
         "create_event", {"title": "Dentist", "start": _day(20, "11:00"), "end": _day(20, "12:00")}),
        ("the hour before", "create_event", {"title": "Bank", **at},
         "create_event", {"title": "Dentist", "start": _day(20, "09:00"), "end": _day(20)}),
        ("the next day", "create_event", {"title": "Bank", **at},
         "create_event", {"title": "Dentist", "start": _day(21), "end": _day(21, "11:00")}),
        ("another calendar", "create_event", {"title": "Bank", "calendarId": "anna@example.com", **at},
         "create_event", {"title": "Dentist", "calendarId": "bert@example.com", **at}),
        ("another room", "book_room", {"room_id": "r7", **at}, "book_room", {"room_id": "r8", **at}),
        ("another doctor's slot", "book_appointment", {"slot_id": "s-14", "patient": "anna"},
         "book_appointment", {"slot_id": "s-15", "patient": "bert"}),
        ("a room for a meeting", "create_event", {"title": "Bank", **at}, "book_room", {"room_id": "r7", **at}),
        ("two on one flight", "book_flight", {"flight_id": "UA12", "passenger": "anna"},
         "book_flight", {"flight_id": "UA12", "passenger": "bert"}),
        ("two tables", "reserve_table", {"restaurant_id": "luigi", "date": _date(17), "time": "19:00", "guests": 2},
         "reserve_table", {"restaurant_id": "luigi", "date": _date(17), "time": "19:00", "guests": 6}),
        ("two nights of one hotel", "create_booking", {"hotel_id": "h1", "check_in": _date(17), "guest": "anna"},
         "create_booking", {"hotel_id": "h1", "check_in": _date(17), "guest": "bert"}),
        ("two orders of one shop", "place_order", {"items": ["flowers"]}, "place_order", {"items": ["a bicycle pump"]}),
    ]  # fmt: skip
    made += [
        (f"slots: {name}", (_call("mira/chat", one, **p), _call("doug/mail", two, "passes", after=DAY, **q)))
        for name, one, p, two, q in slots
    ]
    made += [
        ("slots: the meeting was called off, and the slot is free", (
            _call("mira/chat", "create_event", title="Bank", **at, result={"id": "ev-60"}),
            _call("mira/chat", "delete_event", "passes", after=DAY, event_id="ev-60"),
            _call("doug/mail", "create_event", "passes", after=DAY, title="Dentist", **at),
        )),
        ("slots: the meeting was called off by another, who was told", (
            _call("mira/chat", "create_event", title="Bank", **at, result={"id": "ev-61"}),
            _call("doug/mail", "cancel_event", "told", after=DAY, event_id="ev-61"),
            _call("doug/mail", "cancel_event", event_id="ev-61"),
            _call("anna/desk", "create_event", "passes", after=DAY, title="Dentist", **at),
        )),
        ("slots: the meeting was moved, and the slot is free", (
            _call("mira/chat", "create_event", title="Bank", **at, result={"id": "ev-62"}),
            _call("mira/chat", "update_event", "passes", after=DAY, event_id="ev-62", start=_day(22), end=_day(22,
                "11:00")),
            _call("doug/mail", "create_event", "passes", after=DAY, title="Dentist", **at),
        )),
        ("slots: another puts the meeting off by half an hour", (
            _call("mira/chat", "create_event", title="Bank", **at, result={"id": "ev-63"}),
            _call("doug/mail", "update_event", "passes", after=DAY, event_id="ev-63",
                  start=_day(20, "10:30"), end=_day(20, "11:30")),
        )),
        ("slots: the booking had failed", (
            _call("mira/chat", "create_event", title="Bank", **at, outcome="error:403 forbidden"),
            _call("doug/mail", "create_event", "passes", after=DAY, title="Dentist", **at),
        )),
    ]  # fmt: skip
    work: list[tuple[str, str, dict[str, Any], str, dict[str, Any]]] = [
        ("a feature", "enable_feature", {"feature_id": "f1"}, "disable_feature", {"feature_id": "f1"}),
        ("an issue", "close_issue", {"issue_number": 12, "owner": "acme", "repo": "shop"},
         "reopen_issue", {"issue_number": 12, "owner": "acme", "repo": "shop"}),
        ("a server", "start_server", {"server_id": "web-1"}, "stop_server", {"server_id": "web-1"}),
        ("a label", "add_label", {"issue_number": 3, "label": "bug"}, "remove_label", {"issue_number": 3,
            "label": "bug"}),
        ("a star", "star_message", {"message_id": "m1"}, "unstar_message", {"message_id": "m1"}),
        ("a channel", "mute_channel", {"channel": "#ops"}, "unmute_channel", {"channel": "#ops"}),
        ("an account", "lock_account", {"account_id": "a1"}, "unlock_account", {"account_id": "a1"}),
        ("an event's notes", "accept_invitation", {"event_id": "ev-70"}, "update_event", {"event_id": "ev-70",
            "notes": "bring cake"}),
        ("an event that is read", "accept_invitation", {"event_id": "ev-71"}, "get_event", {"event_id": "ev-71"}),
        ("an order that is sent", "confirm_order", {"order_id": "o-80"}, "ship_order", {"order_id": "o-80"}),
        ("an order's address", "place_order", {"order_id": "o-81"}, "update_order_address",
         {"order_id": "o-81", "address": "Hill Road 4"}),
        ("an order that is paid", "confirm_order", {"order_id": "o-82"}, "pay_order", {"order_id": "o-82"}),
        ("an order that is looked up", "cancel_order", {"order_id": "o-83"}, "get_order_details", {"order_id": "o-83"}),
        ("guests of a booking", "confirm_booking", {"booking_id": "B-9"}, "update_booking", {"booking_id": "B-9",
            "guests": 4}),
        ("the day's meetings", "create_event", {"title": "Bank", **at}, "list_events",
         {"start": _day(20, "00:00"), "end": _day(20, "23:59")}),
        ("a mail about it", "accept_invitation", {"event_id": "ev-72"}, "send_email",
         {"to": "anna@example.com", "subject": "Sunday", "body": "I will decline ev-72, sorry."}),
        ("a file about it", "accept_invitation", {"event_id": "ev-73"}, "Write",
         {"file_path": "/home/dev/project/ev-73.md", "content": "declined"}),
    ]  # fmt: skip
    made += [
        (f"no commitment: {name}", (_call("mira/chat", one, **p), _call("doug/mail", two, "passes", after=DAY, **q)))
        for name, one, p, two, q in work
    ]
    return _numbered("kept", made, 200)


def _numbered(section: Any, told: Told, first: int = 0) -> list[Scenario]:
    return [Scenario(section, first + n, story, story, steps) for n, (story, steps) in enumerate(told, 1)]


CONTRADICTED: Final = (*_contradictions(), *_slots(), *_dated())
KEPT: Final = (*_over(), *_apart())
