"""The regions: small modules that live on the corpus, one job each.

A region is given the corpus when it is made, subscribes, emits, and is ended by ``close()``. None imports
another; ``callosum.brain`` puts together those that are switched on. Each can be used alone.

============= =============== ==========================================================================
module        class           job
============= =============== ==========================================================================
execution     Motor           runs a tool under the gate, with attempts and steps; tells of every call
safety        Amygdala        tells of the gate's decisions
health        Hypothalamus    notices what goes wrong
scheduler     Brainstem       keeps the schedule, watches files, writes weeks and topics
episodes      Hippocampus     writes a page a day of what all sessions did
search        Cortex          finds text in journal and pages
context       Prefrontal      puts the brief together; says what an input asks for
budget        RAS             cuts the brief to its budget
learning      BasalGanglia    proposes narrower rules from what people confirm
models        Thalamus        reads model traffic that a host reports
parsing       Wernicke        reads tool calls out of a model's answer
============= =============== ==========================================================================

``search_file`` and ``search_query`` are Cortex's own.
"""
