"""What a gated call costs, beside named peers that run in the same breath. See README.md."""
