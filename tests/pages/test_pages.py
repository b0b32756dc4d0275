"""The README and each guide, run as they stand there: every block of shell and Python, in order, on a fresh state."""

import itertools
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.pages import PAGES
from tests.pages.given import GIVEN
from tests.support.users.page_commands import ROOT, SHELL, Block, PageShell, blocks_of, is_like, session
from tests.support.users.quick_commands import QuickCommands

README = ROOT / "README.md"
#: Those that are generated have tests of their own, in tests/docs.
GUIDES = [README, *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.name not in PAGES)]
#: Its commands are run by a test of its own (test_web_apps.py), which looks at what several processes answer.
ELSEWHERE = {"how-to-web-apps.md"}
WITH_COMMANDS = [page for page in GUIDES if page.name not in ELSEWHERE and any(block.runs for block in blocks_of(page))]
INSTALL = "python3 -m venv .venv && .venv/bin/pip install "


@dataclass(frozen=True)
class Reader:
    """What readers of all pages have: a state of the bundled data, and how their shells begin."""

    environment: dict[str, str]
    quick: QuickCommands | None
    first_state: Path

    def shell(self, folder: Path) -> PageShell:
        """A reader's shell, with a state of its own in which nothing was done yet."""
        shell = PageShell(folder, environment=self.environment, quick=self.quick)
        shutil.copytree(self.first_state, shell.state)
        return shell


@pytest.fixture(scope="session")
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """A reader of the pages. Only with --full-sweep does each command begin from nothing, with all of the data."""
    folder = tmp_path_factory.mktemp("first")
    environment, quick = {}, None
    if not request.config.getoption("--full-sweep"):
        environment, quick = {"PYTHONPATH": os.environ["PYTHONPATH"]}, request.getfixturevalue("quick")
    with PageShell(folder / "reader", environment=environment, quick=quick) as shell:
        shell.answer("geolookup 8.8.8.8\n", "the first lookup on a machine")
    return Reader(environment, quick, Path(shell.state))


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_a_page_works_as_written(page: Path, tmp_path: Path, reader: Reader) -> None:
    for name in ("curl", "jq"):
        used = any(
            re.search(rf"(^|\$ |\| ){name} ", block.text, re.MULTILINE) for block in blocks_of(page) if block.runs
        )
        if used and shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    with reader.shell(tmp_path / "reader") as shell:
        GIVEN.get(page.name, _nothing)(shell)
        for block in blocks_of(page):
            if block.not_run is None and (block.runs or block.file_name is not None):
                shell.run(_installed(block))


def _nothing(_shell: PageShell) -> None:
    pass


def _installed(block: Block) -> Block:
    """A block without the installation, which the tests have had; nothing is left of the one that runs the tests."""
    if not block.text.startswith(INSTALL):
        return block
    rest = block.text.partition("' && ")[2].replace(".venv/bin/", "")
    return Block(block.page, block.line, block.language, "" if "pytest" in rest else rest, None)


def test_the_first_two_shell_blocks_of_the_readme_set_up_and_run_on_one_line_each() -> None:
    first, second, *_ = (block.text.strip() for block in blocks_of(README) if block.language == SHELL)
    for block in (first, second):
        assert "\n" not in block
        assert block.startswith(INSTALL)
    assert ".venv/bin/geolookup 8.8.8.8" in first
    assert "pytest" in second


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_each_block_says_what_it_is(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = blocks_of(page)
    assert text.count("```") == 2 * len(found), "each block begins and ends at the beginning of a line"
    for block in found:
        if not block.runs:
            assert block.not_run is None, f"{block}: no test would run it"
            assert not re.match(r"\$? ?(geolookup|python3? -m|curl|sudo) ", block.text), f"{block}: sh runs it"
        if block.not_run is not None:
            assert len(block.not_run) > 20, f"{block}: why not?"


def test_the_sources_of_the_readme_can_be_added(tmp_path: Path) -> None:
    """Their block is not run, since the sync in it needs the network."""
    page, text = README.name, README.read_text(encoding="utf-8")
    lines = re.findall(r"^geolookup source add [^\n]*(?:dbip|office|registry)[^\n]*", text, re.MULTILINE)
    assert len(lines) == 2
    with PageShell(tmp_path / "reader") as shell:
        (shell.folder / "office.csv").write_text("first,last,city\n10.0.0.1,10.0.0.2,Austin\n")
        shell.answer("\n".join(lines) + "\n", page)
        assert shell.answer("geolookup source list\n", page).startswith("office\t")


FIGURE = re.compile(r"\d[\d.]*(?= (?:µs|ns)\b)")


def measured(results: str) -> dict[str, list[str]]:
    """The figures that the README repeats from the page of results, by the beginning of its line."""
    native = results.partition("## native")[2].partition("IPv4, uniform")[2].splitlines()[0].split()
    column = results.partition("## columns")[2].partition("\ngeolookup ")[2].split()[0]
    return {
        "| one IPv4 lookup in Python |": [native[0], native[1], native[3]],
        "| a column of a million addresses |": [column],
    }


def corrections(readme: str, results: str) -> list[str]:
    """What to write where in the README, so that it says what was measured."""
    above, _, rest = readme.partition("## Beside geoip2")
    first, figures, said = above.count("\n") + 1, measured(results), []
    for number, line in enumerate(rest.partition("\n\n## ")[0].splitlines(), start=first):
        beginning = next((each for each in figures if line.startswith(each)), None)
        wanted = figures.pop(beginning) if beginning else []
        found = FIGURE.findall(line)
        if len(found) != len(wanted):
            said.append(f"README.md:{number}: has the figures {found}, and benchmarks/RESULTS.md has {wanted} for it")
        elif found != wanted:
            parts = itertools.zip_longest(FIGURE.split(line), wanted, fillvalue="")
            said.append(f"README.md:{number}: write\n{''.join(itertools.chain(*parts))}")
    return said + [f"README.md: no line of the table begins with {beginning}" for beginning in figures]


def test_the_figures_of_the_readme_are_those_that_were_measured() -> None:
    """If the benchmarks were run anew, the README says what they say."""
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    said = corrections(README.read_text(encoding="utf-8"), results)
    assert not said, "\n".join(["the benchmarks say something else:", *said])


def test_a_figure_that_is_out_of_date_is_named_with_its_line() -> None:
    results = (
        "## native\nIPv4, uniform 0.12 1.24 10.3 1.70 14 >= 5\n"
        "## columns\nwhat ns\ngeolookup    45\ngeolookup, encoded 42\n"
    )
    lookup = "| one IPv4 lookup in Python | {} µs; without the C accelerator {} µs | {} µs in C alone |"
    column = "| a column of a million addresses | about {} ns an address | a call for each |"

    def page(*lines: str) -> str:
        return "\n".join(["# One", "", "## Beside geoip2 with GeoLite2", "", *lines, "", "## More", "9 ns"])

    right = [lookup.format("0.12", "1.24", "1.70"), column.format("45")]
    assert corrections(page(*right), results) == []
    said = corrections(page(lookup.format("0.11", "1.24", "1.69"), column.format("42")), results)
    assert said == [f"README.md:5: write\n{right[0]}", f"README.md:6: write\n{right[1]}"]
    assert corrections(page(right[0]), results) == [
        "README.md: no line of the table begins with | a column of a million addresses |"
    ]
    assert corrections(page(*right, "| new | 5 ns | |"), results) == [
        "README.md:7: has the figures ['5'], and benchmarks/RESULTS.md has [] for it"
    ]


def test_every_document_that_is_linked_exists() -> None:
    for page in [README, ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        for target, anchor in re.findall(r"\]\(([^)#:]*)(#[^)]*)?\)", text):
            there = page if not target else page.parent / target
            assert there.exists(), f"{page.name} links to {target}"
            if anchor and there.suffix == ".md":
                assert anchor[1:] in _anchors(there), f"{page.name} links to {target}{anchor}"


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-") for heading in headings}


# --- what runs the pages


def test_a_session_is_cut_at_its_prompts() -> None:
    found = list(session("$ one \\\n    more\nsaid\n$ two | while\n> do\n> done\n$ three\nx\ny\n"))
    assert found == [("one \\\n    more\n", "said\n"), ("two | while\ndo\ndone\n", ""), ("three\n", "x\ny\n")]


@pytest.mark.parametrize(
    ("shown", "said", "like"),
    [
        ("a  b\n", "a\tb\n", True),
        ("a b\n", "a c\n", False),
        ("glk_…\n", "glk_x+(y\n", True),
        ("a\n…\nz\n", "a\nb\nc\nz\n", True),
        ("a\n…\nz\n", "a\nz\n", True),
        ("a   # the page's own\n", "a\n", True),
        ("a\n", "a\nb\n", False),
        ("", "a\n", False),
    ],
)
def test_what_a_page_shows_is_compared(shown: str, said: str, like: bool) -> None:
    assert is_like(shown, said) is like


def _page(folder: Path, text: str) -> list[Block]:
    page = folder / "page.md"
    page.write_text(text)
    return blocks_of(page)


@pytest.mark.parametrize(
    "block",
    ["```sh\nfalse\n```\n", "```sh\nfalse | true\n```\n", "```python\n1 / 0\n```\n", "```console\n$ echo a\nb\n```\n"],
)
def test_a_block_that_fails_is_found(tmp_path: Path, block: str) -> None:
    with PageShell(tmp_path / "reader") as shell, pytest.raises(AssertionError, match=r"page\.md, line 3"):
        shell.run(_page(tmp_path, f"# Page\n\n{block}")[0])


def test_a_block_has_what_the_ones_before_it_left(tmp_path: Path) -> None:
    text = "```toml\n# sub/x.toml\na = 1\n```\n\n```sh\ncd sub\nexport A=1\n```\n\n"
    text += "```console\n$ echo $A; ls\n1\nx.toml\n```\n"
    text += "\n```sh\nexit 3  # exits with 3\n```\n\n*Not run by a test: it would\nfail here.*\n\n```sh\nfalse\n```\n"
    found = _page(tmp_path, text)
    assert [block.not_run for block in found] == [None] * 4 + ["it would fail here."]
    with PageShell(tmp_path / "reader") as shell:
        for block in found[:4]:
            shell.run(block)
