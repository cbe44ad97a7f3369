"""Generation of agents' responses by model requests."""
