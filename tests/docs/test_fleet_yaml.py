"""The YAML of the guide to fleets: it parses, what it mounts is there, and its commands are commands of ours."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import click
import pytest

from geolookup.cli.app import app
from tests.docs.pages import FOLDER

yaml: Any = pytest.importorskip("yaml", reason="PyYAML, which moto brings, is not installed")


def _examples() -> dict[str, Any]:
    """The pod and the play of the guide."""
    text = (FOLDER / "how-to-fleet.md").read_text(encoding="utf-8")
    pod, play = (yaml.safe_load(found) for found in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))
    return {"pod": pod, "play": play}


def _parsed(words: list[str]) -> str:
    """The path of the command that these words are a use of; its options are read, and nothing is run."""
    command: click.Command = app
    path = "geolookup"
    context = None
    while True:
        context = command.make_context(path.rpartition(" ")[2], list(words), parent=context)
        if not isinstance(command, click.Group):
            return path
        _, found, words = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command, path = found, f"{path} {found.name}"


def _commands() -> Iterator[tuple[str, list[str]]]:
    found = _examples()
    for each in (*found["pod"]["spec"]["initContainers"], *found["pod"]["spec"]["containers"]):
        if "command" in each:
            yield each["name"], each["command"]
    for task in found["play"][0]["tasks"]:
        for module, options in task.items():
            if module.endswith(".command"):
                yield module, shlex.split(options["cmd"])
            elif module.endswith(".cron"):
                yield module, [word for word in shlex.split(options["job"]) if "=" not in word]


def test_the_commands_of_the_examples_are_commands() -> None:
    used = {name: (words[0].rpartition("/")[2], _parsed(words[1:])) for name, words in _commands()}
    assert used == {
        "join": ("geolookup", "geolookup fleet join"),
        "follow": ("geolookup", "geolookup fleet follow"),
        "ansible.builtin.command": ("geolookup", "geolookup fleet join"),
        "ansible.builtin.cron": ("geolookup", "geolookup sync"),
    }


def test_the_pod_mounts_what_it_has_and_writes_to_its_volume_alone() -> None:
    pod = _examples()["pod"]
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    spec = pod["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    volumes = {volume["name"] for volume in spec["volumes"]}
    for container in (*spec["initContainers"], *spec["containers"]):
        assert {"name", "image", "volumeMounts"} <= set(container)
        mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
        assert set(mounts) <= volumes
        if "command" not in container:
            assert mounts["geo"]["readOnly"] is True
            assert {"name": "GEOLOOKUP_HOME", "value": mounts["geo"]["mountPath"]} in container["env"]
            continue
        assert container["securityContext"] == {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}
        words = container["command"]
        if "--root" in words:
            root = words[words.index("--root") + 1]
            assert root.startswith(f"{mounts['root']['mountPath']}/")


def test_the_play_has_one_module_a_task() -> None:
    (play,) = _examples()["play"]
    keywords = {"become", "become_user", "environment"}
    for task in play["tasks"]:
        (module,) = set(task) - keywords
        assert module.startswith("ansible.builtin.")
