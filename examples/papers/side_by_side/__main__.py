"""Draw the pictures of docs/pictures/papers and write the tables of docs/evidence/papers.md: what the scripts give.

Run it as `python examples/papers/side_by_side [SCRIPT ...]`, or `make papers`. A table stands between
`<!-- rows: SCRIPT -->` and `<!-- end of rows -->`; scripts that have no such place on the page are left out.
"""

import sys

from page_tables import PAGE, PICTURES, in_markdown, places, run_script, with_rows


def main() -> None:
    """Run each script that is named, or all of the page, and write what it gives."""
    for name in sys.argv[1:] or places(PAGE.read_text(encoding="utf-8")):
        tables = run_script(name, PICTURES)
        page = with_rows(PAGE.read_text(encoding="utf-8"), name, in_markdown(tables))
        PAGE.write_text(page, encoding="utf-8")
        print(f"{name}: {sum(len(rows) for _, rows in tables)} rows")


if __name__ == "__main__":
    main()
