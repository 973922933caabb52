"""An async tool under the gate: its lease is renewed while it runs, its outcome is reported.

Run it: ``python examples/async_tool.py``
"""

import asyncio
import sys
import tempfile

from callosum import AsyncGate, Call, LocalGate, Status, guard


async def main(state: str) -> Status:
    """Books a room; returns what the gate shows while the tool runs."""
    with LocalGate(state) as gate:
        seen: list[Status] = []

        @guard(gate, instance="mira", session="chat", tool_timeout=60)
        async def book_room(room: str, start: str) -> str:
            seen.append(await AsyncGate(gate).status())  # from here the room is held by this session
            return f"{room} is booked for {start}"

        print(await book_room("Aurora", "2026-12-01T10:00"))
        call = Call("mira", "book_room", {"room": "Aurora", "start": "2026-12-01T10:15"}, session="cron")
        async with guard(gate, call, pause=False, warned=lambda decision: print(decision.warning)):
            pass  # the same as a block; with pause=False a warning is shown here and lets it pass
        return seen[0]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        status = asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else folder))
        print("held while it ran:", [lock.context_key for lock in status.locks])
