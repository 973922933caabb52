"""A plain function under the gate: two sessions of one agent want to answer the same mail.

Run it: ``python examples/plain_function.py``
"""

import sys
import tempfile

from callosum import Blocked, LocalGate, guard


def main(state: str) -> list[str]:
    """Sends through two sessions; returns what was sent."""
    sent: list[str] = []
    with LocalGate(state) as gate:

        def session(name: str):  # noqa: ANN202 - a tool as each session would build it
            @guard(gate, instance="mira", session=name)
            def delete_account(account_id: str) -> None:
                sent.append(f"{name} deleted {account_id}")

            return delete_account

        first, second = session("heartbeat"), session("chat")
        first("acme-42")
        try:
            second("acme-42")
        except Blocked as no:
            print(no)
            print("verdict:", no.decision.verdict, "because of", no.decision.conflicts[0].kind)
    return sent


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(*main(sys.argv[1] if len(sys.argv) > 1 else folder), sep="\n")
