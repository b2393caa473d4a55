"""From a batch to its release: plan, explain, reserve the cost, read the rows once, add noise, commit."""
