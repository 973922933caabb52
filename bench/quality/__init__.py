"""The split-brain benchmark: how well calls, conflicts and commands are judged, on traffic nobody here wrote."""
