"""An MCP server over HTTP, made with the official SDK: ``python mcphttp.py`` prints its port.

It serves Streamable HTTP at ``/mcp``.
"""

import asyncio
import socket
import sys
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from pydantic import Field

server = MCPServer("web shop", log_level="CRITICAL")
ran: list[str] = []
going = asyncio.Event()


@server.tool()
async def read_note(path: str) -> str:
    """Reads a note."""
    return f"note {path}"


@server.tool()
async def delete_database(name: str, ctx: Context, wait: bool = False) -> str:
    """Deletes a database for good."""
    ran.append(name)
    if wait:
        await ctx.report_progress(1, 2, "begun")
        await going.wait()
    return f"deleted {name}"


@server.tool()
async def release() -> str:
    """Lets those go on who wait."""
    going.set()
    return "go"


@server.tool()
async def what_ran() -> list[str]:
    """Returns the names of the databases that were deleted."""
    return ran


@server.tool()
async def lookup(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Looks something up in a region."""
    return f"in {region}"


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        app = server.streamable_http_app()
        uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listener])


if __name__ == "__main__":
    main()
