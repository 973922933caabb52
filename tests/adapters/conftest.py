"""Failed assertions of the behaviours show their values."""

import pytest

pytest.register_assert_rewrite("tests.adapters.behaviours")
