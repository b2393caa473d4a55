"""The rules of composition: each an upper bound on the joint loss of several releases."""
