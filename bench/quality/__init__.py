"""The split-brain benchmark: how well calls, conflicts and commands are classified, on traffic from elsewhere."""
