"""Polars expressions: of one sensitive column as a function φ of its value, of public columns row by row."""
