"""Check whether every host on this machine asks the gate, without changing anything.

::

    inspection of a host ─┬─ its program and version         program
                          ├─ its entries, switches, reviews  settings
                          ├─ a call that must be refused     canary ── through the very entry's command
                          ├─ its last hook event             heard.json
                          └─ its transcripts ── compared with the journal   compare

A host that should ask the gate (its entries were installed and not uninstalled) but does not is ``wrong``. A host that
was never set up is only mentioned.
"""
