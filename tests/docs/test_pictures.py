"""Pictures of the documentation are drawn by their scripts, describe themselves, and are used."""

import sys
from xml.etree import ElementTree as ET

import pytest
from page_blocks import ROOT

FOLDER = ROOT / "docs" / "pictures"
FILES = sorted(FOLDER.glob("*.svg"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_picture_describes_itself(file):
    """A picture says in words what it shows, fits its box, and loads nothing."""
    root = ET.fromstring(file.read_text(encoding="utf-8"))  # noqa: S314 - our own file
    title = root.find("{http://www.w3.org/2000/svg}title").text
    assert len(title.split()) >= 12
    assert "href" not in file.read_text(encoding="utf-8")
    width, height = map(float, root.get("viewBox").split()[2:])
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        wide = 0.56 * float(text.get("font-size")) * len(text.text)
        share = {"start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor")]
        left = float(text.get("x")) - share * wide
        assert left >= -4, text.text
        assert left + wide <= width + 4, text.text
        assert 0 < float(text.get("y")) < height, text.text


@pytest.mark.slow
def test_pictures_are_those_that_the_scripts_draw(monkeypatch):
    """Drawn anew, every picture has the bytes of its file, and there is no other file."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import draw

    drawn = {name: sheet.svg() for name, sheet in draw.drawn().items()}
    assert sorted(drawn) == [file.stem for file in FILES]
    assert [
        file.stem for file in FILES if file.read_text(encoding="utf-8") != drawn[file.stem]
    ] == []
    for name in ("draw", "sheet", *(topic.__name__ for topic in draw.TOPICS)):
        sys.modules.pop(name)
