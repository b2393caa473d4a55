"""Mechanisms: what answers the queries of a plan with randomness, its certificate and its explanation."""
