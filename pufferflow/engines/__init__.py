"""The only package that reads private rows: engines, the patterns of groups, and the self-test of an engine."""
