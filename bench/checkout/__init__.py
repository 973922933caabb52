"""How often the gate stops a call of two sessions in one checkout that would harm nobody."""
