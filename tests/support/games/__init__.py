"""Games against an account: an adversary picks each next release after seeing the answers before it.

`world` has the data sets and their laws, `tables` the probabilities of binned answers, `referee` the account that
admits releases, `measures` what a limit allows, and `player` the best strategy by dynamic programming.
"""
