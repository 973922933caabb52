import pytest

# so that an assertion of the shipped suites that fails shows what it compared
pytest.register_assert_rewrite("callosum.testing.store_contract", "callosum.testing.gate_contract")
