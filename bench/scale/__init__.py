"""How far the gate scales: service times measured here, and a simulation that is driven by them."""
