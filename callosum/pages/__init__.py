"""Memory pages: what all sessions did, for people to read and for search.

::

    <state>/brain/episodes/2026-05-16.md    a day                            ``day_page.DayPage``
    <state>/brain/digests/2026-W20.md       a week                           ``week_page.WeekPage``
    <state>/brain/topics/<slug>.md          a key that sessions return to    ``topic_page.TopicPage``

Each of the three takes journal entries in order, and makes the page from what it kept. What it keeps is bounded,
however long the journal is. It can take more entries later, so no entry is read twice. A page depends on the entries
alone: two processes that write the same page write the same bytes.

Names, keys and notes on a page come from sessions. They appear in code spans and nowhere else (``markdown``).
``page_folder`` writes the files.
"""
