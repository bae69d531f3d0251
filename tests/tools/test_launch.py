"""With an address the book offers to start online, and starts there; without, it is silent."""

import os
import re
import subprocess
import sys
import tomllib

import nbformat
import pytest
import yaml

import build_site
import chapters
import launch
import lint_notebooks

HOME = "https://github.com/owner/name"
ELSEWHERE = "https://gitlab.com/owner/name"
README = "# Book\n\n## Read\n\nOn.\n\n## Run\n\n`make lab` opens it.\n"
CONFIG = """# settings
title: Book  # its name

parse:
  myst_enable_extensions: [colon_fence, dollarmath]

sphinx:
  config:
    html_theme_options:
      home_page_in_toc: true
"""
OFF = "\nexecute: {execute_notebooks: 'off'}\n"


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """No address in the environment; a folder with a configuration."""
    for name in ("FEDLAB_REPOSITORY", "GITHUB_SERVER_URL", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "_config.yml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


@pytest.fixture
def chapter(monkeypatch, bare):
    """A repository of one small executed chapter, in place of the real one."""
    cells = [
        nbformat.v4.new_markdown_cell("# One\n\nWhat is one?"),
        nbformat.v4.new_code_cell('scale = "fast"\nseed = 0', metadata={"tags": ["parameters"]}),
        nbformat.v4.new_markdown_cell("One is computed."),
        nbformat.v4.new_code_cell("one = 1\none"),
    ]
    result = {"text/plain": "1"}
    cells[-1].outputs = [nbformat.v4.new_output("execute_result", result, execution_count=1)]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=chapters.METADATA)
    source = bare / "notebooks" / "01_one.md"
    chapters.write_atomic(source, chapters.canonical(chapters.with_ids(notebook)))
    stable = chapters.stable(chapters.with_ids(notebook), source.stem)
    chapters.write_atomic(source.with_suffix(".ipynb"), chapters.serialise(stable))
    (bare / "README.md").write_text(README, encoding="utf-8")
    monkeypatch.setattr(chapters, "ROOT", bare)
    monkeypatch.setattr(chapters, "NOTEBOOKS", source.parent)
    return source


def write(root, address):
    """What the command does."""
    found = launch.stale(root, address)
    for path, text in found.items():
        chapters.write_atomic(path, text)
    return sorted(path.name for path in found)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (HOME, HOME),
        (f" {HOME}.git\n", HOME),
        (f"{HOME}/", HOME),
        ("https://user:secret@github.com/owner/name.git", HOME),
        (ELSEWHERE, ELSEWHERE),
        ("https://github.com/owner/my.book", "https://github.com/owner/my.book"),
        ("", None),
        ("/srv/git/name.git", None),
        ("file:///srv/git/name", None),
        ("git@github.com:owner/name.git", None),
        ("http://github.com/owner/name", None),
        ("https://example.org/owner/name", None),
        ("https://github.com.example.org/owner/name", None),
        ("https://github.com/owner", None),
        ("https://github.com/owner/name/tree/main", None),
    ],
)
def test_only_public_addresses_count(given, meant):
    assert launch.normal(given) == meant


def test_first_source_of_an_address_wins(bare, monkeypatch):
    assert launch.address(bare) is None
    git = ["git", "-C", str(bare)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    assert launch.address(bare) is None
    subprocess.run([*git, "remote", "add", "origin", "/srv/git/name"], check=True)
    assert launch.address(bare) is None
    subprocess.run([*git, "remote", "set-url", "origin", f"{HOME}-origin.git"], check=True)
    assert launch.address(bare) == f"{HOME}-origin"
    (bare / "_config.yml").write_text(launch.record(CONFIG, f"{HOME}-config"), encoding="utf-8")
    assert launch.address(bare) == f"{HOME}-config"
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "owner/name-actions")
    assert launch.address(bare) == f"{HOME}-actions"
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://git.example.org")
    assert launch.address(bare) == f"{HOME}-config"
    monkeypatch.setenv("FEDLAB_REPOSITORY", ELSEWHERE)
    assert launch.address(bare) == ELSEWHERE
    monkeypatch.setenv("FEDLAB_REPOSITORY", "")
    assert launch.address(bare) is None
    monkeypatch.setenv("FEDLAB_REPOSITORY", "owner/name")
    with pytest.raises(ValueError, match="FEDLAB_REPOSITORY"):
        launch.address(bare)


def test_a_folder_inside_another_repository_has_no_origin(bare):
    subprocess.run(["git", "-C", str(bare), "init", "--quiet"], check=True)
    subprocess.run(["git", "-C", str(bare), "remote", "add", "origin", HOME], check=True)
    (bare / "copy").mkdir()
    assert launch.origin(bare) == HOME
    assert launch.origin(bare / "copy") is None


def test_without_an_address_the_configuration_stays(chapter):
    assert launch.configure(CONFIG, [chapter.with_suffix(".ipynb")], None) == CONFIG


def test_command_changes_each_file_once(chapter):
    root = chapter.parent.parent
    files = ["01_one.ipynb", "01_one.md", "README.md", "_config.yml"]
    before = {path: path.read_text(encoding="utf-8") for path in root.rglob("*.*")}
    assert write(root, HOME) == files
    assert write(root, HOME) == []
    assert lint_notebooks.faults(chapter) == []
    assert launch.recorded(root) == HOME
    settings = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    assert settings == yaml.safe_load(CONFIG) | {"repository": {"url": HOME}}
    assert "title: Book  # its name" in (root / "_config.yml").read_text(encoding="utf-8")
    assert write(root, f"{HOME}2") == files
    assert not any(
        re.search(rf"{HOME}\b(?!2)", path.read_text(encoding="utf-8")) for path in before
    )
    write(root, ELSEWHERE)
    assert chapter.read_text(encoding="utf-8") == before[chapter]
    stored = chapter.with_suffix(".ipynb")
    assert stored.read_text(encoding="utf-8") == before[stored]


def test_readme_links_to_every_chapter(chapter):
    text = launch.introduce(README, ["01_one", "02_two"], HOME)
    assert text.startswith(README[: README.index("`make lab`")])
    assert text.endswith("`make lab` opens it.\n")
    assert re.findall(r"\]\((.*?)\)", text) == [
        "https://mybinder.org/v2/gh/owner/name/main?urlpath=lab/tree/notebooks",
        "https://colab.research.google.com/github/owner/name/blob/main/notebooks/01_one.ipynb",
        "https://colab.research.google.com/github/owner/name/blob/main/notebooks/02_two.ipynb",
    ]
    other = launch.introduce(text, ["01_one"], ELSEWHERE)
    assert re.findall(r"\]\((.*?)\)", other) == [
        "https://mybinder.org/v2/gl/owner%2Fname/main?urlpath=lab/tree/notebooks"
    ]
    with pytest.raises(ValueError, match="## Run"):
        launch.introduce("# Book\n", [], HOME)


def test_colab_is_offered_only_where_chapters_start_there(chapter):
    notebooks = [chapter.with_suffix(".ipynb")]

    def launchers(address):
        settings = yaml.safe_load(launch.configure(CONFIG, notebooks, address))
        options = settings["sphinx"]["config"]["html_theme_options"]
        assert options["home_page_in_toc"]
        assert options["repository_url"] == address
        return set(options["launch_buttons"]) - {"notebook_interface"}

    assert launchers(HOME) == {"binderhub_url"}
    write(chapter.parent.parent, HOME)
    assert launchers(HOME) == {"binderhub_url", "colab_url"}
    assert launchers(ELSEWHERE) == {"binderhub_url"}


PLAY_COLAB = """
import sys, types
if sys.argv[1] == "colab":
    sys.modules["google.colab"] = types.ModuleType("google.colab")
import os
cell = compile(open("../cell.py").read(), "cell", "exec")
exec(cell)
os.chdir("..")
exec(cell)  # a reader may run it again
print("in", os.getcwd())
if sys.argv[1] == "colab":
    import fedlab_mini
    print("from", fedlab_mini.__file__)
"""


@pytest.mark.skipif(os.name == "nt", reason="Colab's machines run Linux")
@pytest.mark.parametrize("where", ["colab", "elsewhere"])
def test_cell_fetches_the_book_on_colab_and_only_there(tmp_path, where):
    origin, here, programs = (tmp_path / name for name in ("origin", "content", "bin"))
    here.mkdir()
    for name in ("notebooks/01_one.md", "fedlab_mini/__init__.py"):
        chapters.write_atomic(origin / name, "")
    git = ["git", "-C", str(origin), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "x"]):
        subprocess.run([*git, *words], check=True)
    cell = launch.SETUP.format(address=origin.as_uri()).replace("/content", str(here))
    chapters.write_atomic(tmp_path / "cell.py", cell)
    chapters.write_atomic(programs / "python", "#!/bin/sh\necho $@\n")  # a pip that only says so
    (programs / "python").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", PLAY_COLAB, where],
        cwd=here,
        env=os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    said = done.stdout.splitlines()
    if where == "elsewhere":
        assert said == [f"in {tmp_path}"]
        assert list(here.iterdir()) == []
    else:
        assert said[0] == "-m pip install --quiet anywidget myst-nb pooch"
        assert f"in {here / 'book' / 'notebooks'}" in said
        assert f"from {here / 'book' / 'fedlab_mini' / '__init__.py'}" in said


def test_cell_installs_what_colab_lacks():
    """Of what the package needs. Its own ipywidgets must stay: with newer ones it draws nothing."""
    on_colab = {"torch", "numpy", "scipy", "scikit-learn", "matplotlib", "joblib", "tqdm"}
    on_colab |= {"ipywidgets"}
    root = launch.chapters.ROOT
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.match(r"[\w-]+", line)[0] for line in project["dependencies"]}
    installed = set(re.search(r'pip install --quiet (.*)"', launch.SETUP)[1].split())
    assert needed - on_colab <= installed
    assert installed & on_colab == set()


def test_binder_installs_the_package_in_pinned_versions():
    lines = (chapters.ROOT / ".binder" / "requirements.txt").read_text(encoding="utf-8").split("\n")
    assert {"-c ../requirements.txt", "-e ."} <= set(lines)
    pinned = (chapters.ROOT / "requirements.txt").read_text(encoding="utf-8")
    for name in (line for line in lines if re.match(r"\w", line)):
        assert re.search(rf"^{name}==", pinned, re.MULTILINE)


def test_repository_is_in_step():
    """After another address or a new chapter: python tools/launch.py with the address."""
    address = launch.recorded(chapters.ROOT)
    if address:
        assert launch.stale(chapters.ROOT, address) == {}
    else:
        texts = [source.read_text(encoding="utf-8") for source in chapters.sources()]
        assert not any("google.colab" in text for text in texts)


def test_buttons_of_a_built_page_lead_to_its_notebook(chapter, tmp_path, own_settings):
    write(chapter.parent.parent, HOME)
    stored = chapter.with_suffix(".ipynb")
    folder, out = tmp_path / "staged", tmp_path / "out"
    texts = {
        "_config.yml": launch.configure(f"{CONFIG}{OFF}", [stored], HOME),
        "_toc.yml": "format: jb-book\nroot: book/index\nchapters: [file: notebooks/01_one]\n",
        "book/index.md": "# Book\n\nText.\n",
        "notebooks/01_one.ipynb": stored.read_text(encoding="utf-8"),
    }
    for name, text in texts.items():
        chapters.write_atomic(folder / name, text)
    build_site.jupyter_book(folder, out)
    page = (out / "_build" / "html" / "notebooks" / "01_one.html").read_text(encoding="utf-8")
    links = re.findall(r'href="(https://(?:mybinder|colab|github)[^"]*owner[^"]*)"', page)
    place = "owner/name/blob/main/notebooks/01_one.ipynb"
    assert {link for link in links if "/issues/" not in link} == {
        "https://mybinder.org/v2/gh/owner/name/main?urlpath=lab/tree/notebooks/01_one.ipynb",
        "https://github.com/owner/name",
        f"https://colab.research.google.com/github/{place}",
    }
    assert any(link.startswith("https://github.com/owner/name/issues/new") for link in links)
    assert "google.colab" not in page
