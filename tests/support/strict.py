"""How a program of a test is run: any warning is an error, but for those of numbers that are of little use."""

STRICT = ("-W", "error", "-W", "ignore:Useless", "-W", "ignore:Assumed")
