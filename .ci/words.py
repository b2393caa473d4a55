"""Check the words of everything a person reads: one word for one thing, and the field's word if there is one.

`words.toml` lists words that are not used, what is said instead, and how often each file still has them, with a reason.
The check fails where a file has one more, and where it has one fewer: then the list is shortened. `--list` prints the
list as the files stand. Code is not checked: text in backticks, code blocks, names, and strings without a space.
"""

import collections
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".toml")
CHECKED = ("pufferflow", "connectors", "docs", "examples", "README.md", "CONTRIBUTING.md")
CODE = re.compile(
    r"\]\([^)\s]*\)|`[^`\n]*`|\{[^{}\n]*\}|https?://\S+|\w*_\w+|\w+\(|pf\.\w+|--[\w-]+|\"\w+\"|'\w+'|\w+="
)
TEMPLATES = "pufferflow/reports/templates/"
MARKUP = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|<[^>]*>", re.DOTALL)
"""Commands and values of a template, and elements of pages; texts in them are strings that have a space."""
DIRECTIVE = re.compile(r"# (?:noqa|type:|pyright)")
LITERAL = re.compile(r"(?P<prefix>[rbfuRBFU]*)(?P<quote>'''|\"\"\"|'|\")")


def main() -> int:
    """Print every difference between the files and the list, and return whether there is one."""
    rules = tomllib.loads(LIST.read_text(encoding="utf-8"))
    prose = {name: prose_of(name) for name in checked_files()}
    found = {word: counts(re.compile(rf"\b(?:{word})\b", re.IGNORECASE), prose) for word in rules}
    if "--list" in sys.argv:
        print(as_toml(rules, found))
        return 0
    problems = [
        line for word, rule in rules.items() for line in differences(word, rule, found[word])
    ]
    print("\n".join(problems), end="\n" * bool(problems))
    return int(bool(problems))


def differences(
    word: str, rule: dict[str, object], found: collections.Counter[str]
) -> Iterator[str]:
    """Yield a line for every file that has a word more or less often than the list says."""
    left = rule["left"]
    if not isinstance(left, dict):
        raise TypeError(f"{word!r} has no table of what is left.")
    for name in sorted({*found, *left}):
        if found[name] > left.get(name, 0):
            yield f"{name}: {word!r} {found[name]} times, allowed {left.get(name, 0)}: say {rule['say']}"
        elif found[name] < left.get(name, 0):
            yield f"{name}: {word!r} {found[name]} times: lower the number in .ci/words.toml"


def as_toml(rules: dict[str, dict[str, object]], found: dict[str, collections.Counter[str]]) -> str:
    """Return the list as the files stand."""
    lines: list[str] = []
    for word, rule in rules.items():
        lines += [
            f"['{word}']",
            f'say = "{rule["say"]}"',
            f'why = "{rule["why"]}"',
            f"['{word}'.left]",
        ]
        lines += [*(f'"{name}" = {count}' for name, count in sorted(found[word].items())), ""]
    return "\n".join(lines)


def counts(pattern: re.Pattern[str], prose: dict[str, str]) -> collections.Counter[str]:
    """Return how often the prose of each file has a word."""
    return collections.Counter(
        {name: n for name, text in prose.items() if (n := len(pattern.findall(text)))}
    )


def prose_of(name: str) -> str:
    """Return what a person reads of a file."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if name.startswith(TEMPLATES):
        return MARKUP.sub(lambda mark: " ".join(re.findall(r"\"([^\"]* [^\"]*)\"", mark[0])), text)
    parts = outside_code(text) if name.endswith(".md") else comments_and_texts(text)
    return "\n".join(CODE.sub(" ", part) for part in parts)


def outside_code(text: str) -> Iterator[str]:
    """Yield the lines that are not in a code block, and no examples."""
    block = False
    for line in text.split("\n"):
        bare = line.lstrip()
        if bare.startswith("```"):
            block = not block
        elif not block and not bare.startswith((">>>", "...", "    ")):
            yield line


def comments_and_texts(source: str) -> Iterator[str]:
    """Yield the comments, docstrings and messages of a Python file: the strings that have a space."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not DIRECTIVE.match(token.string):
            yield token.string
        elif token.type == tokenize.STRING:
            start = LITERAL.match(token.string)
            if start is None:
                continue
            body = token.string[start.end() : -len(start["quote"])]
            if " " in body.strip() and "b" not in start["prefix"].lower():
                lines = body.split("\n")
                yield "\n".join(
                    line for line in lines if not line.lstrip().startswith((">>>", "..."))
                )


def checked_files() -> list[str]:
    """Return the names of all checked files that Git knows, and of new ones."""
    command = [
        "git",
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "--deduplicate",
        *CHECKED,
    ]
    listed = subprocess.run(  # noqa: S603 - a fixed command
        command, cwd=ROOT, text=True, capture_output=True, check=False
    ).stdout.split("\n")
    names = listed if any(listed) else [str(path.relative_to(ROOT)) for path in walked()]
    return sorted(name for name in names if is_prose(name) and (ROOT / name).exists())


def is_prose(name: str) -> bool:
    """Return whether a file has words that a person reads."""
    return name.endswith((".py", ".md")) or (
        name.startswith(TEMPLATES) and name.endswith((".html", ".txt"))
    )


def walked() -> Iterator[Path]:
    """Yield all files of the checked folders, where there is no Git."""
    for top in CHECKED:
        yield from (ROOT / top).rglob("*") if (ROOT / top).is_dir() else [ROOT / top]


if __name__ == "__main__":
    sys.exit(main())
