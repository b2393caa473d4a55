"""Markov chains and classes of chains: sums along them, and losses of one row from outputs along them (M18–M20)."""
