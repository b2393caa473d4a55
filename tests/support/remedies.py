"""What an error says to try, as code that a person types."""

REMARKS = (
    ": ",
    ", after",
    ", before",
    ", or ",
    " or ",
    ", and ",
    " says ",
    " in the ",
    " as the ",
    ", which",
    ", with",
)


def typed(way):
    """Return the part of a way out that is code: what comes before its first remark or alternative."""
    for remark in REMARKS:
        head = way.partition(remark)[0]
        way = (
            head
            if all(head.count(one) == head.count(other) for one, other in ("()", "[]", "{}"))
            else way
        )
    return way


def run(code, known):
    """Return what code gives, as a person types it."""
    return eval(code, dict(known))  # noqa: S307 - all code stands in this file and in our own messages
