"""What `mhacli` offers to Python: every name is there, and importing it loads no heavy library."""

import pytest

import mhacli


@pytest.mark.parametrize("name", mhacli.__all__)
def test_every_name_is_there_and_documented(name: str) -> None:
    assert getattr(mhacli, name).__doc__
    assert name in dir(mhacli)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mhacli.nothing


def test_a_stage_is_drawn_from_python() -> None:
    request = mhacli.seeded_request(mhacli.AttentionConfig(12, 3), batch=2, seq_len=5)
    picture = mhacli.stage_picture(request, "scores", room=mhacli.Room(3, 3))
    assert [panel.title for panel in picture.panels] == [f"item {n} · head {h}" for n in (0, 1) for h in range(3)]
    assert picture.panels[0].pooled == (2, 2)
    assert picture.panels[0].values.shape == (3, 3)
    svg = mhacli.figure(picture, mhacli.FigureLook("svg"))
    assert b"item 1" in svg
