"""Icons: what the pages use of the theme's icon program, which weighs 1.5 MB with all its icons.

Called when the site has been written. An icon that no page and no script names is dropped.
"""

from __future__ import annotations

import re
from pathlib import Path

PROGRAM = Path("_static", "scripts", "fontawesome.js")
USED = re.compile(r"\bfa-([a-z0-9-]+)")
#: name:[width,height,[other names],"code","path" or ["path","path"]],
ICON = re.compile(
    r'"?(?P<name>[\w-]+)"?:\[\d+,\d+,\[(?P<also>[^\]]*)\],"[0-9a-f]+",'
    r'(?:"[^"]*"|\["[^"]*","[^"]*"\])\],?'
)


#: .fa-name:before,.fa-other:before{content:"\\code"}
RULE = re.compile(r'(?:\.fa-[\w-]+:before,?)+\{content:"\\[0-9a-f]+"\}')
STYLES = Path("_static", "styles", "pydata-sphinx-theme.css")


def used(site: Path) -> set[str]:
    """Names of icons in pages, scripts and style sheets, without the program itself."""
    files = [*site.rglob("*.html"), *site.rglob("*.js"), *(site / "_static").glob("*.css")]
    named: set[str] = set()
    for path in files:
        if path != site / PROGRAM:
            named.update(USED.findall(path.read_text(encoding="utf-8")))
    return named


def trimmed(program: str, names: set[str]) -> str:
    """The icon program without the icons that are not in ``names``, by name or other name."""

    def keep(icon: re.Match[str]) -> str:
        called = {icon["name"], *re.findall(r'"([^"]+)"', icon["also"])}
        return icon[0] if called & names else ""

    return ICON.sub(keep, program)


def pruned(styles: str, names: set[str]) -> str:
    """A style sheet without the rules of icons that are not in ``names``."""
    return RULE.sub(lambda rule: rule[0] if names & set(USED.findall(rule[0])) else "", styles)


def trim(site: Path) -> None:
    """Shorten the icon program of a built site, and drop the maps that only its authors need."""
    names = used(site)
    for path, shorten in ((site / PROGRAM, trimmed), (site / STYLES, pruned)):
        if path.exists():
            text = shorten(path.read_text(encoding="utf-8"), names)
            path.write_text(text, encoding="utf-8", newline="\n")
    for source_map in [*site.rglob("*.js.map"), *site.rglob("*.css.map")]:
        source_map.unlink()
