"""An MCP server over stdio, made with the official SDK, whose tools may ask the client for input."""

import sys
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

server = MCPServer("rounds", log_level="CRITICAL")
ran: list[str] = []


class Seat(BaseModel):
    number: int


def seat(show: str) -> Elicit[Seat]:
    return Elicit(f"Which seat for {show}?", Seat)


@server.tool()
def deploy(host: str) -> str:
    """Deploys."""
    ran.append(f"deploy {host}")
    return f"deployed {host}"


@server.tool()
def reserve(show: str, where: Annotated[Seat, Resolve(seat)]) -> str:
    """Reserves a seat."""
    ran.append(f"reserve {show} {where.number}")
    return f"seat {where.number} of {show}"


@server.tool()
def what_ran() -> list[str]:
    """Returns what was done."""
    return ran


if __name__ == "__main__":
    sys.exit(server.run("stdio"))
