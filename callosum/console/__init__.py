"""The console: pages on which a person sees what all sessions do and answers what waits for them.

::

    callosum console ── a link, good once ──> access    who may see and answer
    journal, status  ── Picture (followed)  ──> views   what a page shows
                                             └> pages   templates to HTML; live: the parts that changed, to all viewers
    a form           ── web ── the gate's own operations (approve, deny, resolve, release)

It reads through the gate's public operations and the journal, and decides nothing by itself. Everything an agent wrote
is data: escaped by the templates, hidden characters shown.
"""
