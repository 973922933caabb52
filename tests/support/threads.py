"""Run functions in threads."""

import threading
from collections.abc import Callable, Iterable


def all_at_once(parties: Iterable[Callable[[], object]], seconds: float = 60) -> None:
    """Run each function in a thread of its own, from the same moment on; raise the first error of any."""
    errors: list[BaseException] = []
    parties = list(parties)
    start = threading.Barrier(len(parties))

    def run(party: Callable[[], object]) -> None:
        start.wait()
        try:
            party()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(party,)) for party in parties]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive(), "it hangs"
    if errors:
        raise errors[0]
