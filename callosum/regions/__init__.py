"""The regions: small modules on the corpus, each with one job.

A region gets the corpus in its constructor, subscribes to events, emits events, and ends with ``close()``. No region
imports another; ``callosum.brain`` creates those that are switched on. Each can be used alone.

============= =============== ==========================================================================
module        class           job
============= =============== ==========================================================================
execution     Motor           runs a tool under the gate, with attempts and steps
health        Hypothalamus    detects what goes wrong
scheduler     Brainstem       runs the schedule, watches files, writes weekly digests and topic pages
episodes      Hippocampus     writes a page for each day of what all sessions did
search        Cortex          searches the journal and the pages
context       Prefrontal      builds the brief; classifies the intent of an input
budget        RAS             cuts the brief to its budget
learning      BasalGanglia    proposes narrower rules from what people confirm
parsing       Wernicke        emits the tool calls that a host read out of a model's answer
============= =============== ==========================================================================

What the gate journals becomes ``tool.*`` (Motor's), ``safety.*`` and ``lease.*`` (Amygdala's) in
``callosum.corpus.follower``. ``models`` (Thalamus) is no module here: hosts report ``llm.*`` events, and a server reads
them in transcripts (``callosum.hosts.transcripts``). ``search_index`` and ``search_query`` belong to Cortex,
``watched_files`` to Brainstem, ``machine`` to Hypothalamus.
"""
