"""Whether every host on this machine asks the gate, found out without changing anything.

::

    facts of a host ─┬─ its program and version        program
                     ├─ its entries, switches, trust    settings
                     ├─ a call that must be refused     canary ── through the very entry's command
                     ├─ when it was last heard          heard.json
                     └─ its transcripts ── compared with the journal   compare

A host of which somebody expects that it asks (its entries were put in, and not taken out again) and that does not is
``wrong``. One that never was set up is only mentioned.
"""
