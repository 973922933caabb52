"""Gemini CLI: what its hooks say and are told, where they are set up."""
