"""What holds for all tests."""

import importlib
import pkgutil
from contextlib import suppress

import callosum


def pytest_collection_finish() -> None:
    """Loads all of the product, where tests will run.

    Hypothesis also tries constants of the modules that are loaded. Which examples a test is given must not depend on
    which tests the same process ran before it.
    """
    for found in pkgutil.walk_packages(callosum.__path__, "callosum."):
        if not found.name.endswith("__main__"):
            with suppress(ImportError):  # what it needs is optional and not installed
                importlib.import_module(found.name)
