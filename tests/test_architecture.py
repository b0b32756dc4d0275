"""docs/architecture.md draws the rooms and floors that pyproject.toml holds; every package is in both; no cycles."""

import re
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "geolookup"
#: Drawn without a floor: everything may import them, and they import nothing.
WITHOUT_FLOOR = {"__init__", "py.typed"}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def drawing() -> list[str]:
    """The lines of the drawing below src/geolookup/."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    lines = page.partition("```\nsrc/geolookup/\n")[2].partition("\ntests/")[0].splitlines()
    assert lines
    return lines


def drawn_floors() -> dict[str, int]:
    found = {}
    for line in drawing():
        if match := re.match(r"  (\w+)(?:\.py|/) +(\d+)  \S", line):
            found[match[1]] = int(match[2])
    return found


def contract_floors() -> dict[str, int]:
    contracts = project()["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if "geolookup.cli" in each.get("layers", ()))
    return {
        room.strip().removeprefix("geolookup."): floor
        for floor, rooms in enumerate(reversed(layers))
        for room in rooms.split("|")
    }


def test_the_drawing_has_the_rooms_and_floors_of_the_contract() -> None:
    assert drawn_floors() == contract_floors()


def test_the_drawing_goes_from_the_lowest_floor_to_the_highest() -> None:
    floors = [floor for name, floor in drawn_floors().items() if name != "__main__"]
    assert floors == sorted(floors)


def test_every_module_and_room_at_the_top_has_a_floor() -> None:
    there = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert there - WITHOUT_FLOOR == set(contract_floors())


def packages() -> set[str]:
    """Every folder with Python modules in it, as a package."""
    found = (path.parent.relative_to(SOURCE.parent) for path in SOURCE.rglob("*.py"))
    return {".".join(folder.parts) for folder in found}


def test_every_package_is_installed() -> None:
    """Setuptools finds the folders that have an ``__init__.py``."""
    for name in packages():
        assert (SOURCE.parent / Path(*name.split(".")) / "__init__.py").exists(), name


def test_every_package_is_drawn() -> None:
    text = "\n".join(drawing())
    for name in packages() - {"geolookup"}:
        _, room, *inner = name.split(".")
        assert re.search(rf"^  {room}/", text, re.MULTILINE), name
        below = text.partition(f"\n  {room}/")[2]
        below = re.split(r"\n  \w", below)[0]
        for folder in inner:
            assert f" {folder}/" in below, name


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Not for types, or inside a function, either."""
    grimp = pytest.importorskip("grimp", reason="grimp comes with the extra dev")
    graph = grimp.build_graph("geolookup")
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert sum(map(len, imports.values())) > 500
    TopologicalSorter(imports).prepare()  # CycleError names the modules
