"""Draw the pictures of docs/pictures/papers and fill in the tables of docs/evidence/papers.md, from what the scripts give.

Run it as `python examples/papers/side_by_side [SCRIPT ...]`, or `make pictures`. A table stands between
`<!-- rows: SCRIPT -->` and `<!-- end of rows -->`; scripts that have no such place on the page are left out.
"""

import sys

from pages import PAGE, PICTURES, in_markdown, places, run_script, with_rows


def main() -> None:
    """Run each script that is named, or all of the page, and write what it gives."""
    page = PAGE.read_text(encoding="utf-8")
    for name in sys.argv[1:] or places(page):
        tables = run_script(name, PICTURES)
        page = with_rows(page, name, in_markdown(tables))
        PAGE.write_text(page, encoding="utf-8")
        print(f"{name}: {sum(len(rows) for _, rows in tables)} rows")


if __name__ == "__main__":
    main()
