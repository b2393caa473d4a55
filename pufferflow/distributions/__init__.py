"""Distributions of answers, finite or Gaussian, their distances, and couplings that attain these; the user of POT."""
