"""``fleet …``: keys, publishing what is served here, and joining as a reader."""

import os
import threading
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from geolookup.base.reasons import reason
from geolookup.base.text import count
from geolookup.cli import exit_codes, interrupt, output
from geolookup.cli.groups import LazyGroup
from geolookup.cli.options import json_option, load_settings, state_directory, wait_option
from geolookup.cli.units import fleet_unit
from geolookup.exports import licences
from geolookup.model.errors import MissingExtraError, SettingsError
from geolookup.settings import times
from geolookup.settings.table import Settings
from geolookup.settings.times import shown
from geolookup.state.base import clock

if TYPE_CHECKING:
    from geolookup.fleet.publish import Published
    from geolookup.fleet.reader import Received
    from geolookup.fleet.store import Store

_keys_option = click.option(
    "--keys", metavar="DIR", help="The folder of keys that `fleet init` made; remembered with the state."
)


class _Fleet(LazyGroup):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            import tuf.ngclient  # noqa: F401
        except ImportError as error:
            raise MissingExtraError(f"this needs python-tuf: pip install 'geolookup[fleet]' ({error})") from error
        return super().invoke(ctx)


@click.group(cls=_Fleet)
def fleet() -> None:
    """Publish to any number of readers, or be one of them.

    \b
    One machine builds and edits; what it serves is signed and written as static files, which any web
    server, CDN or object store hands on. Readers fetch what is new, check it, and answer offline.
    Example: geolookup fleet publish /srv/geo
    """


@fleet.command()
@click.argument("folder", metavar="DIR")
@click.option("--root-keys", default=1, show_default=True, metavar="N", help="How many root keys to make.")
@click.option("--threshold", default=1, show_default=True, metavar="N", help="How many of them must sign a new root.")
@json_option
def init(folder: str, root_keys: int, threshold: int, as_json: bool) -> None:
    """Make the keys of a fleet in DIR, and root.json, by which readers know them.

    \b
    Move the root keys to where no network is: they are needed only to change keys. The publish key
    stays with the builder. Every reader needs root.json, which may be public.
    Example: geolookup fleet init keys/
    """
    from geolookup.fleet import keys

    made = keys.init(folder, root_keys=root_keys, threshold=threshold)
    text = (
        f"made {', '.join(made)} in {folder}: keep the root key offline, give root.json to the readers; "
        f"next: geolookup fleet publish FOLDER --keys {folder}"
    )
    output.emit(as_json, {"folder": folder, "files": made, "threshold": threshold}, text)


@fleet.command()
@click.argument("place", metavar="[FOLDER|s3://BUCKET/PREFIX]", required=False)
@_keys_option
@click.option(
    "--layer",
    type=click.Choice(["all", "default"]),
    help="`default` leaves the custom geolocations out, which all who can read FOLDER could read, too.",
)
@click.option("--licence-allows", is_flag=True, help="The licences of all sources let this fleet have their data.")
@click.option("--follow", is_flag=True, help="Go on, and publish each change of what is served, until it is ended.")
@click.option("--print-systemd", is_flag=True, help="Print the unit that runs this with --follow.")
@click.option("--take-over", is_flag=True, help="Publish from here from now on, in place of another builder.")
@json_option
def publish(
    place: str | None,
    keys: str | None,
    layer: str | None,
    licence_allows: bool,
    follow: bool,
    print_systemd: bool,
    take_over: bool,
    as_json: bool,
) -> None:
    """Publish what is served here to FOLDER, signed, as static files.

    \b
    FOLDER is what a web server serves; s3://BUCKET/PREFIX an object store, with credentials from the
    environment (AWS_ACCESS_KEY_ID …). It and the keys are remembered. If nothing changed, the signature is
    renewed: without a publish, readers warn after seven days. What is published is signed, and not secret.
    Exit status: 0 done, 1 failed, 75 another builder publishes there.
    Example: geolookup fleet publish /srv/geo --keys keys/
    """
    settings = load_settings()
    if print_systemd:
        given: dict[str, Any] = {
            "keys": keys and os.path.abspath(keys),
            "layer": layer,
            "licence_allows": licence_allows,
        }
        where = [] if place is None else [place if "://" in place else os.path.abspath(place)]
        _print_unit(
            settings, ["publish", *where, "--follow"], given, writes=[*where, *([given["keys"]] if keys else [])]
        )
        return
    call, home = _publisher(settings, place, keys, layer, licence_allows=licence_allows)
    done = call(take_over)
    private = [count(done.custom, "custom geolocation")] if done.custom else []
    if done.vrfs:
        private.append(f"{count(len(done.vrfs), 'routing domain')} ({', '.join(done.vrfs)})")
    if private:
        output.note(
            f"geolookup: all who can read {done.place} can read the names and networks of {' and '.join(private)}: "
            "--layer default leaves them out"
        )
    output.emit(as_json, done.as_dict, _published(done))
    if follow:
        from geolookup.fleet.following import follow_builder

        def say(found: "Published") -> None:
            output.emit(as_json, found.as_dict, _published(found))

        follow_builder(home, call, say, output.fail, threading.Event())


def _publisher(
    settings: Settings, place: str | None, keys: str | None, layer: str | None, *, licence_allows: bool
) -> "tuple[Callable[..., Published], str]":
    """A call that publishes, with what the options and the state's memory say; and the state directory."""
    from geolookup.fleet import publish as publishing

    directory = state_directory(settings)
    memory = publishing.remembered(directory.home)
    place = place or (memory.place if memory is not None else None)
    if not place:
        raise SettingsError("nothing was published from here before: name the FOLDER to publish to")
    keys = os.path.abspath(keys) if keys is not None else memory.keys if memory is not None else None
    chosen: Any = layer or (memory.layer if memory is not None else "all")
    store = _store(place)

    def allowed(current: Any) -> None:
        if not licence_allows:
            answering = [str(entry["name"]) for entry in current.serving]
            instead = "publish a state without that source"
            licences.require_leave(directory.home, current, answering, instead=instead)

    def call(take_over: bool = False) -> "Published":
        interrupt.writing_to(str(store))
        return publishing.publish(directory.home, store, keys=keys, layer=chosen, allowed=allowed, take_over=take_over)

    return call, directory.home


def _store(place: str) -> "Store":
    from geolookup.fleet.store import Folder

    if "://" not in place:
        return Folder(place)
    try:
        from geolookup.fleet.bucket import Bucket
    except ImportError as error:
        raise MissingExtraError(f"object stores need obstore: pip install 'geolookup[fleet]' ({error})") from error
    return Bucket(place)


def _published(done: "Published") -> str:
    what = f"published generation {done.generation}" if done.new else f"nothing new: generation {done.generation} stays"
    sizes = ""
    if done.new and done.delta_bytes < done.whole_bytes:
        sizes = f": {done.delta_bytes:,} bytes for readers of the one before, {done.whole_bytes:,} for others"
    elif done.new:
        sizes = f": {done.whole_bytes:,} bytes for each reader"
    return f"{what}{sizes}; signed until {shown(done.ends_at)}"


@fleet.command()
@click.argument("url", metavar="URL")
@click.option("--root", required=True, metavar="FILE", help="The fleet's root.json, from a channel that you trust.")
@wait_option
@json_option
def join(url: str, root: str, wait_s: float | None, as_json: bool) -> None:
    """Make this state a reader of the fleet at URL, and fetch what is published.

    \b
    From then on `geolookup sync` fetches what is new: a small step, or the whole. A reader makes no edits,
    and has no other sources; a state that has edits is refused.
    Example: geolookup fleet join https://geo.example.com --root root.json
    """
    from geolookup.fleet import reader

    settings = load_settings()
    try:
        with open(root, "rb") as file:
            text = file.read(1 << 20)
    except OSError as error:
        raise SettingsError(f"{root}: {reason(error)}") from error
    reader.require_no_sources(settings)
    directory = state_directory(settings, wait_s=wait_s)
    with output.progress("fetched", "byte") as progress:
        done = reader.join(directory, settings, url, text, where=root, progress=progress)
    output.emit(as_json, done.as_dict, _joined(done))


def _joined(done: "Received") -> str:
    return (
        f"joined the fleet of {done.builder} at {done.url}: generation {done.generation} is its "
        f"{done.builder_generation}; from now on: geolookup sync"
    )


@fleet.command("follow")
@click.option("--every", default="10s", show_default=True, metavar="TIME", help="How often to ask for what is new.")
@click.option("--print-systemd", is_flag=True, help="Print the unit that runs this.")
@json_option
def follow_fleet(every: str, print_systemd: bool, as_json: bool) -> None:
    """Fetch what is new again and again, until it is ended; for readers.

    \b
    If nothing is new, two small files are asked for. A timer with `geolookup sync` does as well.
    Example: geolookup fleet follow --every 30s
    """
    from geolookup.fleet import reader
    from geolookup.fleet.following import follow_reader
    from geolookup.state.publishing.run import running

    settings = load_settings()
    try:
        every_s = times.seconds(every)
    except ValueError as error:
        raise click.BadParameter(reason(error), param_hint="--every") from error
    if print_systemd:
        _print_unit(settings, ["follow", "--every", every], {}, writes=[])
        return
    directory = state_directory(settings)
    if reader.joined(directory.home) is None:
        raise SettingsError(f"{directory.home}: is no reader: geolookup fleet join URL --root FILE")
    reader.require_no_sources(settings)

    def sync() -> "Received":
        with running(directory) as run:
            return reader.sync(run, settings)

    def say(found: "Received") -> None:
        ways = ", ".join(f"{name} {way}" for name, way in found.way.items() if way != "there")
        text = (
            f"published generation {found.generation}, which is {found.builder_generation} of {found.builder}: "
            f"{found.bytes_read:,} bytes ({ways or 'nothing but what is said of it'})"
        )
        output.emit(as_json, found.as_dict, text)

    interrupt.working_on(directory)
    follow_reader(directory.home, sync, say, output.fail, threading.Event(), every_s=every_s)


@fleet.command("status")
@json_option
def fleet_status(as_json: bool) -> int:
    """Show what this machine publishes, or what it reads, and until when that is signed.

    \b
    Exit status: 0; 1 if the signatures have ended, or it is neither builder nor reader.
    Example: geolookup fleet status
    """
    from geolookup.fleet import publish, reader

    directory = state_directory(load_settings())
    joined, memory = reader.joined(directory.home), publish.remembered(directory.home)
    current = directory.named_current()
    if joined is not None and current is not None:
        published, seen = current.published, joined.versions
        found: dict[str, Any] = {
            "role": "reader",
            "place": joined.url,
            "builder": published.get("builder"),
            "generation": current.generation,
            "builder_generation": published.get("builder_generation"),
            "published_there": published.get("published_there"),
            "published_here": current.published_at,
            "signed_until": joined.ends_at,
            "versions": None if seen is None else seen._asdict(),
        }
    elif memory is not None and memory.manifest is not None:
        found = {
            "role": "builder",
            "place": memory.place,
            "builder": memory.manifest.builder,
            "generation": memory.manifest.generation,
            "published_there": memory.manifest.published_at,
            "layer": memory.layer,
            "signed_until": memory.ends_at,
            "keys": memory.keys,
            "whole_bytes": {name: file.whole.bytes for name, file in memory.manifest.files.items()},
            "steps_bytes": {name: [s.blob.bytes for s in file.steps] for name, file in memory.manifest.files.items()},
            "versions": {"root": memory.root, "timestamp": memory.timestamp, "snapshot": memory.snapshot},
        }
    else:
        raise SettingsError(
            f"{directory.home}: neither publishes nor reads: geolookup fleet publish FOLDER, or geolookup fleet join "
            "URL --root FILE"
        )
    ended = not found["signed_until"] or datetime.fromisoformat(found["signed_until"]) <= clock.wall()
    found["ended"] = ended
    if as_json:
        output.json_result(found)
    else:
        output.lines(_status_lines(found))
    return exit_codes.FAILED if ended else exit_codes.DONE


def _status_lines(found: dict[str, Any]) -> list[str]:
    lines = []
    for name, value in found.items():
        if name in ("ended", "versions", "steps_bytes", "whole_bytes") or value is None:
            continue
        text = shown(value) if name in ("published_there", "published_here", "signed_until") and value else str(value)
        if name == "signed_until" and found["ended"]:
            text += ": ENDED"
        lines.append(f"{name.replace('_', ' ') + ':':<20}{text}")
    for name, size in found.get("whole_bytes", {}).items():
        steps = found["steps_bytes"][name]
        last = f"; the last of {count(len(steps), 'step')}: {steps[-1]:,}" if steps else ""
        lines.append(f"{name + ':':<20}{size:,} bytes{last}")
    if found["versions"]:
        told = ", ".join(f"{name} {value}" for name, value in found["versions"].items() if name != "keys")
        lines.append(f"{'versions:':<20}{told}")
    return lines


def _print_unit(settings: Settings, arguments: list[str], given: dict[str, Any], *, writes: list[str]) -> None:
    for name, value in given.items():
        if value:
            arguments += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    unit, notes = fleet_unit(settings, arguments, writes=[path for path in writes if "://" not in path])
    click.echo(unit, nl=False)
    for note in notes:
        output.note(f"geolookup: {note}")


@fleet.group()
def root() -> None:
    """Change the keys of a fleet.

    \b
    Example: geolookup fleet root rotate keys/ --new-publish-key
    """


@root.command()
@click.argument("folder", metavar="DIR")
@click.option("--new-publish-key", is_flag=True, help="Revoke the publish key, and make another.")
@click.option("--add", multiple=True, metavar="FILE", help="Make another root key in FILE; may be repeated.")
@click.option("--drop", multiple=True, metavar="KEYID", help="Revoke the root key whose identifier begins so.")
@click.option("--threshold", type=int, metavar="N", help="How many root keys must sign from now on.")
@click.option(
    "--key", "key_files", multiple=True, metavar="FILE", help="Sign with this root key, too, which is elsewhere."
)
@json_option
def rotate(
    folder: str,
    new_publish_key: bool,
    add: tuple[str, ...],
    drop: tuple[str, ...],
    threshold: int | None,
    key_files: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make the next root.json with other keys, and sign it with the root keys that are here.

    \b
    The next publish hands it to the readers, which follow. If more root keys must sign, it waits in DIR
    for `fleet root sign`.
    Examples:
      geolookup fleet root rotate keys/ --new-publish-key
      geolookup fleet root rotate keys/ --add keys/root-4.key --drop 3fa1c0 --key /media/safe/root-1.key
    """
    from geolookup.fleet import keys

    made, waits = keys.rotate(
        folder, new_publish=new_publish_key, add=add, drop=drop, threshold=threshold, keys=key_files
    )
    _say_root(folder, made.signed.version, waits, as_json=as_json)


@root.command()
@click.argument("folder", metavar="DIR")
@click.option("--key", required=True, metavar="FILE", help="The root key to sign with.")
@json_option
def sign(folder: str, key: str, as_json: bool) -> None:
    """Sign the root.json that waits in DIR with one more root key.

    \b
    Example: geolookup fleet root sign keys/ --key /media/safe/root-2.key
    """
    from geolookup.fleet import keys

    made, waits = keys.sign(folder, key)
    _say_root(folder, made.signed.version, waits, as_json=as_json)


def _say_root(folder: str, version: int, waits: str | None, *, as_json: bool) -> None:
    text = f"version {version} of root.json is in force: geolookup fleet publish hands it to the readers"
    if waits is not None:
        text = f"version {version} waits for more signatures in {waits}: geolookup fleet root sign {folder} --key FILE"
    output.emit(as_json, {"folder": folder, "version": version, "waits": waits}, text)
