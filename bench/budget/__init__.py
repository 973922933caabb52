"""The figures of ``budget.toml``: how they are measured, checked and lowered."""
