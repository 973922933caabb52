"""Pages of memory: what all sessions did, for people to read and for search to find.

::

    <state>/brain/episodes/2026-05-16.md    a day                            ``day.Day``
    <state>/brain/digests/2026-W20.md       a week                           ``week.Week``
    <state>/brain/topics/<slug>.md          a key that sessions return to    ``topic.Topic``

Each of the three is fed entries of the journal, in order, and makes the page from what it kept. What it keeps
is bounded, however long the journal is, and it can be fed more later, so nobody reads an entry twice. A page is
a function of the entries alone: two processes that write the same page write the same bytes.

Names, keys and notes in a page came from sessions. They stand in code spans and nowhere else (``markdown``).
``folder`` writes the files.
"""
