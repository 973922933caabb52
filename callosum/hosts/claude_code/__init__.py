"""Claude Code: read and answer its hook events, and locate its settings."""
