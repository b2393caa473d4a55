"""Distributions of answers, finite or Gaussian; distances between them, and couplings that attain these."""
