"""The console: pages on which a person sees what all sessions do and answers calls that wait for a person.

::

    callosum console ── a link, valid once ──> access   who may see and answer
    journal, status  ── Picture (followed)  ──> views   what a page shows
                                             └> pages   templates to HTML; live: the changed parts, to all viewers
    a form           ── web ── the gate's own operations (approve, deny, resolve, release)

It reads through the gate's public operations and the journal, and decides nothing by itself. Everything an agent wrote
is data: templates escape it and show hidden characters.
"""
