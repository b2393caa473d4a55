"""Check the length of sentences on the pages for people: at most 25 words, where a piece of code counts as one.

It prints the sentences that are longer, and fails if there is one.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST = 25
CODE = re.compile(r"`[^`\n]+`|\[([^\]]*)\]\([^)\s]*\)|<[^>]*>")
BREAK = re.compile(r"(?<=[.!?:])[\"')*]*\s+(?=\S)")
MARK = re.compile(r"^\s*(?:[-*+]|\d+\.|#+|>|!!! \w+|\?\?\? \w+)\s+")


def main() -> int:
    """Print every sentence that is too long, and return whether there is one."""
    problems = 0
    for page in (*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"):
        for one in sentences(page.read_text(encoding="utf-8")):
            if words(one) > MOST:
                problems += 1
                print(f"{page.relative_to(ROOT)}: {words(one)} words: {one}")
    return int(bool(problems))


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page: of paragraphs, entries of lists, and cells of tables."""
    for paragraph in paragraphs(text):
        plain = CODE.sub(lambda code: code[1] or "code", paragraph)
        yield from BREAK.split(plain)


def paragraphs(text: str) -> Iterator[str]:
    """Yield what stands together, outside blocks of code."""
    block, lines = False, list[str]()
    for line in [*text.split("\n"), ""]:
        bare = line.strip()
        if bare.startswith("```"):
            block = not block
        if block or not bare or bare.startswith(("|", "```", "<!--", "#")) or MARK.match(line):
            yield " ".join(lines)
            lines = []
        if block or bare.startswith(("```", "<!--", "![", "::: ")):
            continue
        if bare.startswith("|"):
            yield from bare.strip("|").split("|")
        elif bare:
            lines.append(MARK.sub("", line).strip())


def words(sentence: str) -> int:
    """Return how many words a sentence has."""
    return len(re.findall(r"[^\W_][\w'’.,%-]*", sentence))


if __name__ == "__main__":
    sys.exit(main())
