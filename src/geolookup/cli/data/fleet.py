"""``fleet …``: keys, publishing what is served here, and joining as a reader."""

import os
from typing import TYPE_CHECKING, Any

import click

from geolookup.base.reasons import reason
from geolookup.base.text import count
from geolookup.cli import interrupt, output
from geolookup.cli.groups import LazyGroup
from geolookup.cli.options import json_option, load_settings, state_directory, wait_option
from geolookup.exports import licences
from geolookup.model.errors import MissingExtraError, SettingsError
from geolookup.settings.table import Settings
from geolookup.settings.times import shown

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
    stays with the builder. root.json is for every reader, and is no secret.
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
@click.argument("place", metavar="[FOLDER|S3]", required=False)
@_keys_option
@click.option(
    "--layer",
    type=click.Choice(["all", "default"]),
    help="`default` leaves the custom geolocations out: whoever reads FOLDER can read them, too.",
)
@click.option("--licence-allows", is_flag=True, help="The licences of all sources let this fleet have their data.")
@click.option("--take-over", is_flag=True, help="Publish from here from now on, in place of another builder.")
@json_option
def publish(
    place: str | None, keys: str | None, layer: str | None, licence_allows: bool, take_over: bool, as_json: bool
) -> None:
    """Publish what is served here to FOLDER, signed, as static files.

    \b
    FOLDER is what a web server serves. It and the keys are remembered. If nothing changed, the signature is
    renewed: without a publish, readers warn after seven days. What is published is signed, and not secret.
    Exit status: 0 done, 1 failed, 75 another builder publishes there.
    Example: geolookup fleet publish /srv/geo --keys keys/
    """
    settings = load_settings()
    with_settings = _publisher(settings, place, keys, layer, licence_allows=licence_allows)
    done = with_settings(take_over)
    if done.custom:
        output.note(
            f"geolookup: whoever can read {done.place} can read the names and networks of "
            f"{count(done.custom, 'custom geolocation')}: --layer default leaves them out"
        )
    output.emit(as_json, done.as_dict, _published(done))


def _publisher(
    settings: Settings, place: str | None, keys: str | None, layer: str | None, *, licence_allows: bool
) -> Any:
    """A call that publishes, with what the options and the state's memory say."""
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

    return call


def _store(place: str) -> "Store":
    from geolookup.fleet.store import Folder

    if "://" in place:
        raise SettingsError(f"{place}: is no folder")
    return Folder(place)


def _published(done: "Published") -> str:
    what = f"published generation {done.generation}" if done.new else f"nothing new: generation {done.generation} stays"
    sizes = (
        f": {done.delta_bytes:,} bytes for readers of the one before, {done.whole_bytes:,} for others"
        if done.new
        else ""
    )
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
