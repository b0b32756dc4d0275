"""Where is this IP address? Offline lookups by a service's own data, with custom blocks above its defaults.

The names below load on first use (PEP 562): importing the package costs nothing that a lookup does not need.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from geolookup.base.version import __version__
    from geolookup.exports.content import LayerChoice
    from geolookup.exports.export import Exported, ExportForm, export
    from geolookup.lookup.engine import GeoLookup
    from geolookup.lookup.network import Network
    from geolookup.lookup.record import Record
    from geolookup.model.errors import (
        BlockError,
        ChangedSinceError,
        ColumnError,
        DataFileError,
        DefaultGeolocationError,
        EditError,
        EditsDamagedError,
        GeoLookupError,
        HeldError,
        IndexDamagedError,
        IndexFileError,
        IndexTooNewError,
        InvalidAddressError,
        InvalidRangeError,
        LicenceError,
        MissingExtraError,
        NoStateError,
        PlanError,
        PullError,
        RequestRefusedError,
        ServiceError,
        SettingsError,
        StaleDataError,
        StateBusyError,
        StateDamagedError,
        StateError,
        StateTooNewError,
        StateUnreadableError,
        StateUnwritableError,
        TooMuchGoneError,
        UnknownGenerationError,
        UnknownGeolocationError,
        UnknownVrfError,
        UpstreamAnswerError,
        UpstreamAuthError,
        UpstreamError,
        UpstreamRefusedError,
        UpstreamUnavailableError,
        WideBlockError,
        WrongUpstreamError,
    )
    from geolookup.model.reports import (
        AnswerSince,
        CoveringBlock,
        ExplainedFact,
        Explanation,
        FactsSince,
        RunFailure,
        SourceStatus,
        StateCheck,
        Status,
    )
    from geolookup.model.types import (
        AddressLike,
        AddressObject,
        BlockLike,
        BlockObject,
        Geolocation,
        IPBlock,
        Layer,
        Match,
        NewGeolocation,
        Segment,
        StaleRule,
    )
    from geolookup.settings.sites import SitesSettings
    from geolookup.settings.source import SourceSettings
    from geolookup.settings.table import Settings
    from geolookup.state.editor import Editor
    from geolookup.state.edits.layer import Laid
    from geolookup.state.edits.outbox.operations import Operation
    from geolookup.state.edits.outbox.row import OutboxRow
    from geolookup.state.edits.outbox.row import State as EditState
    from geolookup.state.publishing.catalogue import Reference
    from geolookup.sync.opening import (
        open,  # noqa: A004 - `geolookup.open` is the library's front door
        open_editor,
    )

__all__ = [
    "AddressLike",
    "AddressObject",
    "AnswerSince",
    "BlockError",
    "BlockLike",
    "BlockObject",
    "ChangedSinceError",
    "ColumnError",
    "CoveringBlock",
    "DataFileError",
    "DefaultGeolocationError",
    "EditError",
    "EditState",
    "Editor",
    "EditsDamagedError",
    "ExplainedFact",
    "Explanation",
    "ExportForm",
    "Exported",
    "FactsSince",
    "GeoLookup",
    "GeoLookupError",
    "Geolocation",
    "HeldError",
    "IPBlock",
    "IndexDamagedError",
    "IndexFileError",
    "IndexTooNewError",
    "InvalidAddressError",
    "InvalidRangeError",
    "Laid",
    "Layer",
    "LayerChoice",
    "LicenceError",
    "Match",
    "MissingExtraError",
    "Network",
    "NewGeolocation",
    "NoStateError",
    "Operation",
    "OutboxRow",
    "PlanError",
    "PullError",
    "Record",
    "Reference",
    "RequestRefusedError",
    "RunFailure",
    "Segment",
    "ServiceError",
    "Settings",
    "SettingsError",
    "SitesSettings",
    "SourceSettings",
    "SourceStatus",
    "StaleDataError",
    "StaleRule",
    "StateBusyError",
    "StateCheck",
    "StateDamagedError",
    "StateError",
    "StateTooNewError",
    "StateUnreadableError",
    "StateUnwritableError",
    "Status",
    "TooMuchGoneError",
    "UnknownGenerationError",
    "UnknownGeolocationError",
    "UnknownVrfError",
    "UpstreamAnswerError",
    "UpstreamAuthError",
    "UpstreamError",
    "UpstreamRefusedError",
    "UpstreamUnavailableError",
    "WideBlockError",
    "WrongUpstreamError",
    "__version__",
    "export",
    "open",
    "open_editor",
]

#: Where each name is, and under which name if that is another; errors are in `errors`.
_HOMES = {
    "AddressLike": "model.types",
    "AddressObject": "model.types",
    "BlockLike": "model.types",
    "BlockObject": "model.types",
    "AnswerSince": "model.reports",
    "CoveringBlock": "model.reports",
    "EditState": "state.edits.outbox.row:State",
    "Editor": "state.editor",
    "ExplainedFact": "model.reports",
    "FactsSince": "model.reports",
    "Explanation": "model.reports",
    "ExportForm": "exports.export",
    "Exported": "exports.export",
    "GeoLookup": "lookup.engine",
    "Geolocation": "model.types",
    "IPBlock": "model.types",
    "Laid": "state.edits.layer",
    "Layer": "model.types",
    "LayerChoice": "exports.content",
    "Match": "model.types",
    "Network": "lookup.network",
    "Record": "lookup.record",
    "NewGeolocation": "model.types",
    "Operation": "state.edits.outbox.operations",
    "OutboxRow": "state.edits.outbox.row",
    "Reference": "state.publishing.catalogue",
    "Segment": "model.types",
    "Settings": "settings.table",
    "SitesSettings": "settings.sites",
    "SourceSettings": "settings.source",
    "RunFailure": "model.reports",
    "SourceStatus": "model.reports",
    "StaleRule": "model.types",
    "StateCheck": "model.reports",
    "Status": "model.reports",
    "__version__": "base.version",
    "export": "exports.export",
    "open": "sync.opening",
    "open_editor": "sync.opening",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home, _, there = _HOMES.get(name, "model.errors").partition(":")
    value = getattr(import_module(f"{__name__}.{home}"), there or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
