"""Check the length of sentences that people read: at most 25 words, where a piece of code counts as one.

They are those of pages, docstrings, and texts of the library such as errors. It prints the sentences that are longer,
and fails if there is one.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST = 25
CODE = re.compile(r"`[^`\n]+`|\[([^\]]*)\]\([^)\s]*\)|<[^>]*>")
BREAK = re.compile(r"(?<=[.!?:])[\"')*]*\s+(?=\S)")
EXAMPLE = re.compile(r"^ *>>>.*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)
SQL = re.compile(r"\s*(SELECT|INSERT|CREATE|UPDATE|WITH) ")
MARK = re.compile(r"^\s*(?:[-*+]|\d+\.|#+|>|!!! \w+|\?\?\? \w+)\s+")


def main() -> int:
    """Print every sentence that is too long, and return whether there is one."""
    problems = 0
    pages = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
    modules = [
        *sorted((ROOT / "pufferflow").rglob("*.py")),
        *sorted((ROOT / "connectors").rglob("*.py")),
    ]
    texts = [(page, page.read_text(encoding="utf-8")) for page in pages]
    texts += [(module, one) for module in modules for one in texts_of(module)]
    for file, text in texts:
        for one in sentences(text):
            if words(one) > MOST:
                problems += 1
                print(f"{file.relative_to(ROOT)}: {words(one)} words: {one}")
    return int(bool(problems))


def texts_of(module: Path) -> Iterator[str]:
    """Yield the docstrings of a module without their examples, and its texts with a blank; a value counts as a word."""
    waiting: list[ast.AST] = [ast.parse(module.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        text = text_of(node)
        if text is None:
            waiting += ast.iter_child_nodes(node)
        elif " " in text and not SQL.match(text):
            yield "\n".join(EXAMPLE.sub("", text).split("\n"))


def text_of(node: ast.AST) -> str | None:
    """Return the text of a literal, of a formatted one, or of several that are added up; None of what is no text."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part) or "value" for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            known = [text_of(left), text_of(right)]
            return None if known == [None, None] else "".join(one or "value" for one in known)
        case _:
            return None


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
