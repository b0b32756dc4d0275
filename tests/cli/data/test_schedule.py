"""Units and crontab lines: what systemd and cron make of them is what was meant, whatever stands in a path."""

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from geolookup.cli import units
from geolookup.cli.units import Job
from geolookup.model.errors import SettingsError
from geolookup.settings.load import load
from geolookup.settings.table import described
from tests.cli.edits.test_custom import Command
from tests.support.data.states import place, publish

#: Everything that systemd, cron or a shell has a meaning for.
AWKWARD = "a b$HOME%h\"c'd\\n;e#f*`g`"
TOKEN = "canary-token-do-not-print"


@pytest.fixture
def command(home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("GEOLOOKUP_URL", "https://geo.example/base")
    return Command(capsys)


@pytest.fixture
def systemd() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("systemd is not installed")
    return found


def verified(systemd: str, folder: Path, service: str, timer: str) -> str:
    """What systemd says of the units."""
    (folder / units.SERVICE).write_text(service)
    (folder / units.TIMER).write_text(timer)
    names = [str(folder / units.SERVICE), str(folder / units.TIMER)]
    result = subprocess.run(
        [systemd, "verify", "--man=no", *names], capture_output=True, text=True, check=False, timeout=60
    )
    said = "\n".join(line for line in result.stderr.splitlines() if "geolookup" in line)
    return f"{result.returncode}:{said}"


def cron_runs(line: str) -> str:
    """The command that cron hands to the shell, by crontab(5) and vixie cron's own loop."""
    command = line.rstrip("\n").split(" ", 5)[5]
    out, escaped = "", False
    for character in command:
        if escaped:
            out += character if character in "%\\" else f"\\{character}"
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            assert character != "%", "cron would take the rest for standard input"
            out += character
    return out


def test_systemd_finds_nothing_wrong_with_the_units(command: Command, systemd: str, tmp_path: Path) -> None:
    service, timer = command("refresh", "--print-systemd=service"), command("refresh", "--print-systemd=timer")
    assert verified(systemd, tmp_path, service, timer) == "0:"
    assert command("refresh", "--print-systemd") == f"{service}\n{timer}"


def test_systemd_is_told_of_a_mistake_where_there_is_one(command: Command, systemd: str, tmp_path: Path) -> None:
    service = command("refresh", "--print-systemd=service").replace("ProtectSystem=strict", "ProtectSystem=stricter")
    assert "protect system" in verified(systemd, tmp_path, service, units.timer_unit())


def test_the_service_is_confined(command: Command, systemd: str, tmp_path: Path) -> None:
    (tmp_path / units.SERVICE).write_text(command("refresh", "--print-systemd=service"))
    result = subprocess.run(
        [systemd, "security", "--offline=true", "--threshold=20", str(tmp_path / units.SERVICE)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout[-300:]


def awkward_job(tmp_path: Path) -> tuple[Job, dict[str, str]]:
    """A job in which every text is awkward; with the environment that its process must find."""
    program = tmp_path / "a b%h$HOME;c#d" / "geo lookup%$x"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$OUT"; env >> "$OUT"\n')
    program.chmod(0o755)
    environment = {"GEOLOOKUP_AUTH_HEADER": AWKWARD, "GEOLOOKUP_URL": "https://geo.example/%7Ebase"}
    home = str(tmp_path / f"home {AWKWARD}")
    planned = Job(
        command=(str(program), "refresh", AWKWARD),
        environment=environment,
        config=None,
        home=home,
        textfile=None,
        secrets={"token_file": str(tmp_path / f"token {AWKWARD}")},
        longest_s=60,
        succeeds_with=(75,),
    )
    return planned, {**environment, "GEOLOOKUP_HOME": home, "GEOLOOKUP_TOKEN_FILE": planned.secrets["token_file"]}


def test_systemd_finds_an_executable_whatever_its_name(tmp_path: Path, systemd: str) -> None:
    planned, _ = awkward_job(tmp_path)
    service = units.service_unit(planned)
    assert verified(systemd, tmp_path, service, units.timer_unit()) == "0:"
    os.rename(planned.command[0], f"{planned.command[0]}x")
    assert "not executable" in verified(systemd, tmp_path, service, units.timer_unit())


@pytest.mark.parametrize("character", ["'", '"', "\\"])
def test_an_executable_that_systemd_cannot_run_is_refused(tmp_path: Path, character: str) -> None:
    planned = replace(awkward_job(tmp_path)[0], command=(f"/opt/a{character}b/geolookup", "refresh"))
    with pytest.raises(SettingsError, match="systemd"):
        units.service_unit(planned)


def test_units_quote_what_systemd_has_a_meaning_for(tmp_path: Path) -> None:
    planned, expected = awkward_job(tmp_path)
    lines = units.service_unit(planned).splitlines()

    def unquoted(text: str) -> str:
        """systemd.syntax(7): C escapes within quotes; then specifiers."""
        inner = re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text
        assert not re.search(r"(?<!%)%(?:%%)*(?![%dS])", inner)
        return inner.replace("%%", "%")

    found = dict(unquoted(line.partition("=")[2]).split("=", 1) for line in lines if line.startswith("Environment="))
    assert {name: found[name] for name in expected if name != "GEOLOOKUP_TOKEN_FILE"} == {
        name: value for name, value in expected.items() if name != "GEOLOOKUP_TOKEN_FILE"
    }
    assert found["GEOLOOKUP_TOKEN_FILE"] == "%d/token"
    (credential,) = (line for line in lines if line.startswith("LoadCredential="))
    assert credential.removeprefix("LoadCredential=token:").replace("%%", "%") == expected["GEOLOOKUP_TOKEN_FILE"]
    (start,) = (line for line in lines if line.startswith("ExecStart="))
    assert start.endswith(' refresh "' + AWKWARD.translate({92: "\\\\", 34: '\\"', 36: "$$", 37: "%%"}) + '"')


def test_cron_and_the_shell_run_what_was_meant(tmp_path: Path) -> None:
    planned, expected = awkward_job(tmp_path)
    line = units.crontab_line(planned)
    assert re.match(r"[0-5]?[0-9] [23] \* \* \* ", line)
    assert line.count("\n") == 1
    out = tmp_path / "out"
    result = subprocess.run(
        ["/bin/sh", "-c", cron_runs(line)],
        env={"HOME": "/elsewhere", "OUT": str(out)}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    printed = out.read_text().splitlines()
    assert printed[:2] == ["refresh", AWKWARD]
    assert {f"{name}={value}" for name, value in expected.items()} <= set(printed)


def test_the_minute_is_the_same_each_time_and_another_for_another_state(command: Command, home: str) -> None:
    moments = set()
    for number in range(8):
        os.environ["GEOLOOKUP_HOME"] = f"{home}{number}"
        try:
            line = command("refresh", "--print-cron")
            assert line == command("refresh", "--print-cron")
        finally:
            del os.environ["GEOLOOKUP_HOME"]
        moments.add(line.split(" * * * ")[0])
    assert len(moments) > 1


def test_the_settings_in_force_go_along_and_no_secret_does(
    command: Command, tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "my settings.toml"
    config.write_text("keep_generations = 3\ncompression = true\n")
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(config))
    monkeypatch.setenv("GEOLOOKUP_TOKEN", TOKEN)
    monkeypatch.setenv("GEOLOOKUP_PING_URL", f"https://hc.example/{TOKEN}")
    monkeypatch.setenv("GEOLOOKUP_TRUST_ENV", "true")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "30")  # as by default
    arguments = ("refresh", "--textfile", tmp_path / "x.prom", "--on-conflict", "mine", "--changed-exit-code", "10")
    service = command(*arguments, "--print-systemd=service")
    assert "/etc/geolookup/token" in command.error
    cron = command(*arguments, "--print-cron")
    for text in (service, cron, command.error):
        assert TOKEN not in text
    assert "refresh --on-conflict mine --changed-exit-code 10" in service
    assert "refresh --on-conflict mine --changed-exit-code 10" in cron
    assert "SuccessExitStatus=75 10 143\n" in service
    assert f"LoadCredential=geolookup.toml:{config}\n" in service
    assert "Environment=GEOLOOKUP_CONFIG=%d/geolookup.toml\n" in service
    assert f"GEOLOOKUP_CONFIG={shlex.quote(str(config))} " in cron
    for text in (service, cron):
        assert "GEOLOOKUP_TRUST_ENV=true" in text
        assert "GEOLOOKUP_URL=https://geo.example/base" in text
        assert f"GEOLOOKUP_TEXTFILE={tmp_path / 'x.prom'}" in text
        assert "SETTLE_S" not in text
        assert "KEEP_GENERATIONS" not in text, "the file says it, and may say otherwise tomorrow"
    assert f"ReadWritePaths={tmp_path}\n" in service


def test_a_state_of_nobodys_choosing_is_the_services_own(command: Command) -> None:
    service = command("refresh", "--print-systemd=service")
    for line in ("User=geolookup", "StateDirectory=geolookup", "Environment=GEOLOOKUP_HOME=%S/geolookup"):
        assert f"{line}\n" in service
    assert "ReadWritePaths" not in service


@pytest.fixture
def own_state(default_home: str) -> str:
    """The state that this user has without having chosen one."""
    publish(default_home, [place(1, "8.0.0.0/8", city="Ulm")])
    return default_home


@pytest.mark.parametrize("words", [("refresh", "--print-systemd=service"), ("share", "--print-systemd")], ids=str)
def test_the_units_are_for_the_state_that_this_user_has_and_say_how_it_moves(
    words: tuple[str, ...], own_state: str, command: Command, systemd: str, tmp_path: Path
) -> None:
    unit = command(*words)
    owner = Path(own_state).owner()
    for line in (f"User={owner}", f"Environment=GEOLOOKUP_HOME={own_state}", "OnFailure=geolookup-failure@%n.service"):
        assert f"{line}\n" in unit
    assert f"{own_state} is the state of {owner} alone" in command.error
    assert "`geolookup state move /var/lib/geolookup`" in command.error
    assert f"ReadWritePaths={own_state}\n" in unit
    assert "%S" not in unit
    assert verified(systemd, tmp_path, unit, units.timer_unit()) == "0:"
    # What is started finds that state with the environment of the unit alone.
    environment = dict(
        line.removeprefix("Environment=").split("=", 1) for line in unit.splitlines() if line.startswith("Environment=")
    )
    start = shlex.split(next(line for line in unit.splitlines() if line.startswith("ExecStart=")).partition("=")[2])
    program = start[: start.index(words[0])]
    answer = subprocess.run(
        [*program, "8.8.8.8"], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert "Ulm" in answer.stdout, answer


def test_a_state_that_follows_files_is_scheduled_and_they_must_be_readable(
    command: Command, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GEOLOOKUP_URL")
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    office = tmp_path / "office.csv"
    office.write_text("network,country\n192.0.2.0/24,DE\n")
    command("sync", office)
    assert f"GEOLOOKUP_HOME={home}\n" in command("refresh", "--print-systemd=service")
    assert f"let {Path(home).owner()} read {office} (source office)" in command.error


def test_a_share_of_no_state_yet_says_so(command: Command) -> None:
    assert "GEOLOOKUP_HOME=%S/geolookup\n" in command("share", "--print-systemd")
    assert "nothing has been published in /var/lib/geolookup yet" in command.error


def test_what_failed_reaches_the_unit_that_tells_of_it(command: Command, systemd: str, tmp_path: Path) -> None:
    service = command("refresh", "--print-systemd=service")
    assert "OnFailure=geolookup-failure@%n.service\n" in service
    assert "`geolookup refresh --print-systemd=failure` prints it" in command.error
    template = command("refresh", "--print-systemd=failure")
    (tmp_path / units.FAILURE).write_text(template)
    result = subprocess.run(
        [systemd, "verify", "--man=no", str(tmp_path / "geolookup-failure@x.service")],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (result.returncode, "geolookup" in result.stderr) == (0, False), result.stderr
    # The command of the unit: what systemctl says of the failed unit goes to the log.
    for name, text in (("systemctl", 'echo "status of $4"'), ("logger", f"cat > {tmp_path}/logged")):
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\n{text}\n")
        tool.chmod(0o755)
    (start,) = (line.removeprefix("ExecStart=") for line in template.splitlines() if line.startswith("ExecStart="))
    words = [word.replace("$$", "$").replace("%i", "geolookup-refresh.service") for word in shlex.split(start)]
    subprocess.run(words, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True, timeout=60)
    assert (tmp_path / "logged").read_text() == "status of geolookup-refresh.service\n"


def test_a_chosen_state_is_written_by_whoever_owns_it(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", "/var/lib/geo/one")
    service = command("refresh", "--print-systemd=service")
    assert "StateDirectory=geo/one\n" in service
    assert "User=geolookup\n" in service
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path))
    service = command("refresh", "--print-systemd=service")
    assert f"User={tmp_path.owner()}\n" in service
    assert f"ReadWritePaths={tmp_path}\n" in service
    assert "StateDirectory" not in service


def test_a_state_that_a_group_may_read_stays_open_to_it(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, systemd: str
) -> None:
    monkeypatch.setattr(units, "STATE", str(tmp_path))
    home = tmp_path / "geolookup"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GEOLOOKUP_HOME", str(home))
    assert "StateDirectory=geolookup\n" in command("refresh", "--print-systemd=service")
    home.chmod(0o2750)
    service = command("refresh", "--print-systemd=service")
    assert "StateDirectory" not in service, "systemd would give it the mode 0700 and its user's group at each start"
    assert f"ReadWritePaths={home}\n" in service
    assert "RestrictSUIDSGID=no\n" in service, "what is published gets the set-group-ID bit"
    assert "StateDirectory" not in command("share", "--print-systemd")
    monkeypatch.delenv("GEOLOOKUP_HOME")
    assert f"ReadWritePaths={home}\n" in command("refresh", "--print-systemd=service")
    assert verified(systemd, tmp_path, service, units.timer_unit()) == "0:"


def test_the_timer_makes_up_for_a_night_that_was_slept_through() -> None:
    timer = units.timer_unit()
    for line in ("OnCalendar=*-*-* 02:00:00", "Persistent=yes", "RandomizedDelaySec=2h", "WantedBy=timers.target"):
        assert f"{line}\n" in timer


def test_what_no_line_can_hold_is_refused(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", "/srv/a\nb")
    for which in ("--print-systemd", "--print-cron"):
        assert command("refresh", which, exits=2) == ""
        assert "control character" in command.error


def test_without_an_upstream_there_is_nothing_to_schedule(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEOLOOKUP_URL")
    for which in ("--print-systemd", "--print-cron"):
        assert command("refresh", which, exits=2) == ""
        assert "no upstream is configured" in command.error


def test_the_job_runs_this_very_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = units.job(load({"url": "https://geo.example"}), [], changed_exit_code=None)
    result = subprocess.run(
        [*planned.command[: planned.command.index("refresh")], "--version"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (result.returncode, "geolookup" in result.stdout) == (0, True)


def test_sources_are_scheduled_without_a_service(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, systemd: str
) -> None:
    monkeypatch.delenv("GEOLOOKUP_URL")
    config = tmp_path / "geolookup.toml"
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(config))
    config.write_text(
        '[[source]]\nname = "office"\nlocation = "office.csv"\n\n'
        '[[source]]\nname = "ours"\nlocation = "/home/me/ours.csv"\n\n'
        '[[source]]\nname = "theirs"\nlocation = "https://geo.example/x.mmdb"\ntoken_file = "/srv/theirs"\n'
    )
    service = command("refresh", "--print-systemd=service")
    copied = "the service reads a copy of the settings in another folder"
    assert command.error.splitlines()[-4:] == [
        f"geolookup: let geolookup read {tmp_path}/office.csv (source office)",
        f"geolookup: write {tmp_path}/office.csv in place of office.csv in {config} (source office): {copied}",
        "geolookup: let geolookup read /home/me/ours.csv (source ours)",
        "geolookup: give /srv/theirs to geolookup, with mode 0600 (source theirs)",
    ]
    assert "ProtectHome=read-only\n" in service
    assert "GEOLOOKUP_URL" not in service
    assert verified(systemd, tmp_path, service, units.timer_unit()) == "0:"
    assert str(config) in command("refresh", "--print-cron")


@pytest.mark.parametrize("name", [setting.name for setting in described() if setting.is_path])
def test_every_setting_that_is_a_path_reaches_the_unit_and_the_crontab(name: str, tmp_path: Path) -> None:
    path = str(tmp_path / f"the-{name}")
    settings = load({"url": "https://geo.example", name: path})
    planned = units.job(settings, [], changed_exit_code=None)
    assert path in units.service_unit(planned)
    assert path in units.crontab_line(planned)
