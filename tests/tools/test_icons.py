"""The icon program keeps the icons that pages use, and nothing else of its icons."""

import icons

PROGRAM = (
    'x();var a={house:[576,512,[127968,"home"],"f015","M1"],"circle-half":[512,512,[],"f042","M2"],'
    'two:[1,2,[],"f1",["M3","M4"]],last:[3,3,[],"f2","M5"]};y({keep:[1,2]})'
)


def test_used_icons_stay_by_any_of_their_names():
    made = icons.trimmed(PROGRAM, {"home", "two"})
    assert "house:[576" in made
    assert '["M3","M4"]' in made
    assert "M2" not in made
    assert "M5" not in made
    assert made.startswith("x();var a={")
    assert made.endswith("};y({keep:[1,2]})")


def test_a_site_is_trimmed_by_what_its_pages_name(tmp_path):
    program = tmp_path / icons.PROGRAM
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM, encoding="utf-8")
    program.with_suffix(".js.map").write_text("{}", encoding="utf-8")
    (tmp_path / "page.html").write_text('<i class="fa-solid fa-circle-half"></i>', encoding="utf-8")
    icons.trim(tmp_path)
    text = program.read_text(encoding="utf-8")
    assert '"circle-half":[512' in text
    assert "house" not in text
    assert not program.with_suffix(".js.map").exists()


def test_rules_of_unused_icons_go():
    gone = r'.fa-gone:before{content:"\f1"}'
    kept = r'.a{b:c}.fa-home:before,.fa-house:before{content:"\f015"}'
    assert icons.pruned(f"{kept}{gone}.d{{}}", {"house"}) == f"{kept}.d{{}}"
