"""Priors fitted on public references, and diagnoses of such fits."""
