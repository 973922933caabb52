"""The stores: one atomic verb, ``transact``, over different engines.

``base`` states the contract; ``sqlite`` is the embedded default; ``memory`` is the model that the
tests compare others with. A store knows no tier, no rule and no policy.
"""
