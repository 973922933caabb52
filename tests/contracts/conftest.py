import pytest

# so that an assertion of the shipped suites that fails shows what it compared
pytest.register_assert_rewrite("callosum.testing.store_contract", "callosum.testing.gate_contract")

from tests.support.postgres import postgres, postgres_url  # noqa: E402, F401  fixtures, once the rewriting is registered
from tests.support.redis_server import redis_server  # noqa: E402, F401
