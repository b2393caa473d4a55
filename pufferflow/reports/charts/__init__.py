"""Charts for notebooks with Altair, from plain values: published numbers, noise, bounds, sensitivities, spending."""
