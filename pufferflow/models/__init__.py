"""What must stay hidden, and what an adversary may know: secrets, domains, priors and the scenario that joins them."""
