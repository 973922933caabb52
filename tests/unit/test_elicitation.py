"""The form by which a client of MCP asks a person about a call."""

import pytest

from callosum.elicitation import SHOWN, agreed, form


def test_form_shows_the_call_with_hidden_characters_escaped() -> None:
    asked = form("deploy", {"host": "prod\u202e", "at": 3}, "A person must decide.")
    assert asked["message"] == 'deploy {"at":3,"host":"prod\\u202e"}\n\nA person must decide.'
    assert asked["requestedSchema"]["properties"]["approve"]["default"] is False


def test_form_shows_the_length_of_truncated_arguments() -> None:
    message = form("deploy", {"text": "x" * 5000}, "Why.")["message"]
    assert "… (5011 characters)" in message
    assert len(message) < SHOWN + 100


@pytest.mark.parametrize(
    ("action", "approve", "said"),
    [
        ("accept", True, True), ("accept", False, False), ("decline", True, False), ("cancel", True, None),
        (None, True, None),
    ],
)  # fmt: skip
def test_only_an_accepted_form_with_a_yes_approves(action: str | None, approve: bool, said: bool | None) -> None:
    assert agreed(action, approve=approve) is said
