"""What a gated call costs in its host, beside the same host without the gate."""
