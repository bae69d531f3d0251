"""A visit names every fault planted in a small page, and none in a sound one."""

import json

import pytest
import visit

DOT = "data:image/gif;base64,R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs="
WIDGET = "application/vnd.jupyter.widget"
DRAWING = """<mjx-container><mjx-math aria-hidden="true">x</mjx-math>
<mjx-assistive-mml hidden><math><mi>x</mi></math></mjx-assistive-mml></mjx-container>"""

SOUND = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>A page</title>
<meta name="viewport" content="width=device-width">
<style>
pre {{ overflow-x: auto; mask-image: linear-gradient(to left, transparent, #000 3rem) }}
body {{ color: #222; background: #fff }}
[data-theme=dark] body {{ color: #eee; background: #111 }}
[data-theme=dark] img {{ background: #fff; filter: invert(0.9) }}
</style>
<script>
const dark = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement;
dark.onchange = () => {{ root.dataset.theme = dark.matches ? "dark" : "light"; }};
dark.onchange();
</script></head>
<body><main><article><h1>A page</h1>
<p>A text with <span class="math">{DRAWING}</span> in it.</p>
<details><summary>More</summary><p>A folded text.</p></details>
<pre tabindex="0"><b class="k">for</b> i <span class="k">in</span> {"x" * 99}</pre>
<div class="cell_output"><img src="{DOT}" alt="a dot"></div>
<!-- here -->
</article></main></body></html>"""

STATE = json.dumps({"state": {"a": {"state": {"_esm": "x" * 24_001}}}})

# what is planted, and what the visit is to say; all of it stands in one page
PLANTED = {
    '<img src="none.png" alt="x">': "image missing: file://",
    '<img src="https://example.org/x.png" alt="x">': "another machine: https://example.org/x.png",
    "<script>nothing.here()</script>": "script error: nothing is not defined",
    '<script>console.error("lost")</script>': "console: lost",
    """<div class="cell_output"><table cellpadding="0"><tbody>
    <tr><td>0.5</td><td>-2</td></tr></tbody></table></div>""": (
        "number touches its neighbour: -2 [light 390"
    ),
    "<p>a $$ formula</p>": "raw formula: $$",
    '<span class="math">y</span>': "3 formulas, 2 of them drawn",
    "<mjx-merror>bad</mjx-merror>": "formula error: bad",
    '<i class="math"><mjx-container></mjx-container></i>': "formula that no screen reader reads",
    f'<div style="color: #999">{DRAWING}</div>': "formula of contrast 2.8 [light 390, light 1280]",
    "<i></i>": "scrolls sideways, needs 488 px [light 390, dark 390]",
    '<div style="width: 30rem">wide</div>': '106 px outside the column: <div style="width: 30rem">',
    '<div style="margin-left: -3px">left</div>': (
        '3 px outside the column: <div style="margin-left: -3px">left</div> [light 390, light 768'
    ),
    """<style>#bare { background: none !important }</style>
    <div class="cell_output"><img id="bare" src="data:image/svg+xml,<svg/>" alt="x"></div>""": (
        "figure not on white paper: data:image/svg+xml"
    ),
    """<style>#glare { filter: none !important }</style>
    <div class="cell_output"><img id="glare" src="data:image/svg+xml,<svg/>#" alt="x"></div>""": (
        "figure glares, or is turned: data:image/svg+xml,<svg/># [dark 390, dark 1280]"
    ),
    # boxes of a size that no font has a say in
    """<style>#wide, #aside { display: inline-block; width: 70px; height: 30px }
    [data-theme=dark] #wide { padding: 4px }</style>
    <p><b id="wide">grown</b></p>""": "height 8,78,38 px, in the light 8,70,30: ",
    """<style>[data-theme=dark] #aside { position: relative; left: 5px }</style>
    <p><b id="aside">moved</b></p>""": "height 13,70,30 px, in the light 8,70,30: ",
    '<p style="color: #888">pale</p>': "axe color-contrast: p:nth-child",
    '<details><summary>+</summary><b style="color: #bbb">pale</b></details>': (
        '<b style="color: #bbb">pale</b>: Element has insufficient color contrast of 1.91'
    ),
    """<style>[data-theme=dark] .s { color: #555 }</style>
    <pre><span class="s">dim</span> and <span class="s">dim</span></pre>""": (
        '<span class="s">dim</span>: Element has insufficient color contrast of 2.53'
    ),
    """<style>.t { width: 30px; height: 30px; padding: 0 }
    @media (max-width: 600px) { .t { width: 9px; height: 9px; border: 0 } }</style>
    <div><button class="t">a</button><button class="t">b</button></div>""": (
        "axe target-size: button:nth-child"
    ),
    "<input>": "axe label: input",
    f'<img src="{DOT}">': "axe image-alt: img",
    f'<div style="overflow: auto; width: 9em"><code>{"y" * 99}</code></div>': (
        "axe scrollable-region-focusable: div"
    ),
    f'<div style="overflow: auto; width: 8em"><code>{"y" * 99}</code></div>': (
        "scrolls, but not by keyboard: "
    ),
    f'<pre tabindex="0" style="mask-image: none">{"y" * 99}</pre>': "has no sign of more: ",
    f'<p style="overflow: hidden; width: 9em">{"y" * 99}</p>': (
        f"{'y' * 38} [light 390, light 1280, dark 390, dark 1280]"
    ),
    f'<script type="{WIDGET}-view+json">{{"model_id": "a"}}</script>': "a widget does not draw",
    f'<script type="{WIDGET}-state+json">{STATE}</script>': (
        "widget programs of 24,001 bytes, limit 24,000"
    ),
}


@pytest.fixture
def found(open_page, tmp_path, monkeypatch):
    """A function that visits a page of this text."""
    monkeypatch.setattr(visit, "PATIENCE", 500)

    def visit_text(text: str) -> list[str]:
        page = tmp_path / "page.html"
        page.write_text(text, encoding="utf-8")
        return visit.visit(open_page(page.as_uri()))

    return visit_text


def test_sound_page_has_no_faults(found):
    assert found(SOUND) == []


def test_every_planted_fault_is_named(found):
    named = found(SOUND.replace("<!-- here -->", "\n".join(PLANTED)))
    unnamed = [fault for fault in PLANTED.values() if not any(fault in line for line in named)]
    assert not unnamed, visit.report("the planted page", named, most=99)
    looks = {line.split(":")[0]: line[line.rindex("[") :] for line in named if line[-1] == "]"}
    assert looks["has no sign of more"] == "[light 390, dark 390]"
    assert looks["axe target-size"] == "[light 390]"
    assert looks["axe label"] == "[light 390, dark 1280]"


def test_page_that_stays_light_and_weighs_too_much(found, tmp_path):
    (tmp_path / "heavy.js").write_bytes(b" " * visit.PAGE_BYTES)
    text = SOUND.replace("</title>", "</title><script src='heavy.js'></script>")
    text = text.replace("h1", "h2").replace("dark.matches", "false")
    weight, *rest = found(text)
    assert weight.startswith(f"loads {visit.PAGE_BYTES + 1_000:,}"[:11])
    assert rest == [
        "no heading of the page to see",
        "does not follow the system's colour scheme [dark 390, dark 1280]",
        "paper of luminance 1.00 [dark 390, dark 1280]",
        f"figure glares, or is turned: {DOT} [dark 390, dark 1280]",
    ]


def test_report_is_a_list_to_read():
    assert (
        visit.report("a", ["x", "y", "z"], most=2) == "a, 3 faults:\n  - x\n  - y\n  - and 1 more"
    )
