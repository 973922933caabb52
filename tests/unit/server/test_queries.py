"""Queries are read strictly."""

import pytest

from callosum.server.queries import read_query
from callosum.wire import BadRequest, BriefQuery


@pytest.mark.parametrize("value", ["null", "NULL", "", "1.5", "many"])
def test_number_in_a_query_is_a_number(value: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_query(BriefQuery, f"instance=mira&budget={value}".encode())
    assert refused.value.at == "budget"


def test_text_in_a_query_may_be_the_word_null() -> None:
    assert read_query(BriefQuery, b"instance=null&budget=60").instance == "null"
