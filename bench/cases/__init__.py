"""The groups of cases. Each has a ``run(folder, rounds)`` that answers with a ``Report``."""
