"""An example for each public name: a session of the Python shell, over the state that `test_pages.py` publishes.

Each one finds ``geolookup`` imported, and GEOLOOKUP_HOME set. The default geolocation 1 (US) has 8.0.0.0/8.
"""

EXAMPLES = {
    "open": """
>>> with geolookup.open() as geo:
...     place = geo.lookup("8.8.8.8")
>>> place.country
'US'
>>> geolookup.open(max_age="36h", stale="refuse").lookup("192.0.2.1") is None
True
""",
    "open_editor": """
>>> with geolookup.open_editor() as editor:
...     locid = editor.create(
...         country="DE", region="BE", city="Berlin", postalcode="",
...         latitude=52.5, longitude=13.4, dmacode="", areacode="",
...     )
...     block = editor.add_block(locid, "8.8.8.0/24")
>>> str(block)
'8.8.8.0-8.8.8.255'
""",
    "GeoLookup": """
>>> with geolookup.open() as geo:
...     [place and place.country for place in geo.lookup_many(["8.8.8.8", "192.0.2.1"])]
...     geo.lookup_integer(0x08080808, family=4).locid
...     geo.status().generation
['US', None]
1
1
""",
    "Editor": """
>>> with geolookup.open() as geo, geo.edit() as editor:
...     with editor.transaction():  # all of it, or nothing
...         locid = editor.create(
...             country="DE", region="BE", city="Berlin", postalcode="",
...             latitude=52.5, longitude=13.4, dmacode="", areacode="",
...         )
...         _ = editor.add_block(locid, "8.8.4.0", "8.8.4.255")
...     geo.lookup("8.8.4.4").city
...     [edit.describe() for edit in editor.pending()][-1].startswith("add 8.8.4.0-8.8.4.255 to")
'Berlin'
True
""",
    "AddressLike": """
>>> import ipaddress
>>> def country(geo: geolookup.GeoLookup, address: geolookup.AddressLike) -> str:
...     place = geo.lookup(address)
...     return place.country if place else "unknown"
>>> with geolookup.open() as geo:
...     [country(geo, "8.8.8.8"), country(geo, ipaddress.ip_address("192.0.2.1"))]
['US', 'unknown']
""",
    "AddressObject": """
>>> import ipaddress, netaddr
>>> objects: list[geolookup.AddressObject] = [ipaddress.IPv4Address("8.8.8.8"), netaddr.IPAddress("8.8.8.8")]
>>> with geolookup.open() as geo:
...     [place and place.country for place in geo.lookup_many(objects)]
['US', 'US']
""",
    "BlockLike": """
>>> import ipaddress
>>> one = geolookup.IPBlock.parse("8.8.7.7")
>>> blocks: list[geolookup.BlockLike] = ["8.8.5.0-8.8.5.9", ipaddress.ip_network("8.8.6.0/24"), one]
>>> with geolookup.open_editor() as editor:
...     locid = editor.create(
...         country="DE", region="BE", city="Berlin", postalcode="",
...         latitude=52.5, longitude=13.4, dmacode="", areacode="",
...     )
...     [str(editor.add_block(locid, block)) for block in blocks]
['8.8.5.0-8.8.5.9', '8.8.6.0-8.8.6.255', '8.8.7.7']
""",
    "BlockObject": """
>>> import ipaddress
>>> block: geolookup.BlockObject = ipaddress.ip_network("8.8.10.0/24")
>>> with geolookup.open_editor() as editor:
...     locid = editor.create(
...         country="DE", region="BE", city="Berlin", postalcode="",
...         latitude=52.5, longitude=13.4, dmacode="", areacode="",
...     )
...     str(editor.add_block(locid, block))
'8.8.10.0-8.8.10.255'
""",
    "Geolocation": """
>>> with geolookup.open() as geo:
...     place = geo.lookup("8.8.8.8")
>>> place.locid, place.layer, place.latitude
(1, 'default', 37.5)
""",
    "IPBlock": """
>>> block = geolookup.IPBlock.parse("10.20.0.0/16")
>>> block.startip, block.endip, block.last - block.first + 1
('10.20.0.0', '10.20.255.255', 65536)
""",
    "NewGeolocation": """
>>> berlin: geolookup.NewGeolocation = {
...     "country": "DE", "region": "BE", "city": "Berlin", "postalcode": "",
...     "latitude": 52.5, "longitude": 13.4, "dmacode": "", "areacode": "",
... }
>>> with geolookup.open_editor() as editor:
...     editor.create(**berlin) < -(10**15)
True
""",
    "Match": """
>>> with geolookup.open() as geo:
...     match = geo.match("8.8.8.8")
>>> match.first, match.last, match.layer, match.pending
('8.0.0.0', '8.255.255.255', 'default', False)
""",
    "Record": """
>>> with geolookup.open() as geo:
...     record = geo.record("8.8.8.8")
>>> record["country"]["iso_code"], record.find("country.names.en"), record.find("location.time_zone")
('US', 'United States', None)
""",
    "Network": """
>>> found = geolookup.Network(  # as `geo.network("8.8.8.8")` gives it, if a source says who runs the address
...     address="8.8.8.8", first="8.8.8.0", last="8.8.8.255",
...     facts={"autonomous_system_number": 15169}, sources={"autonomous_system_number": "asn"},
... )
>>> found.asn, found.source_of("asn"), found.is_anonymous_vpn, found.network
(15169, 'asn', None, '8.8.8.0/24')
""",
    "Segment": """
>>> with geolookup.open() as geo:
...     first = next(geo.segments(4))
>>> first.first == 8 << 24, first.geolocation.locid
(True, 1)
""",
    "ExplainedFact": """
>>> with geolookup.open() as geo:
...     geo.explain("8.8.8.8").facts  # no source says who runs it
()
""",
    "Explanation": """
>>> with geolookup.open() as geo:
...     found = geo.explain("8.8.8.8")
>>> found.match.geolocation.locid, len(found.covering), found.generation
(1, 1, 1)
""",
    "AnswerSince": """
>>> with geolookup.open() as geo:
...     since = geo.explain("8.8.8.8").since
>>> (since.generation, since.is_exact, since.generation_before)
(1, True, None)
""",
    "FactsSince": """
>>> with geolookup.open() as geo:
...     geo.explain("8.8.8.8").facts_since  # no source says who runs it
""",
    "CoveringBlock": """
>>> with geolookup.open() as geo:
...     covering = geo.explain("8.8.8.8").covering[0]
>>> str(covering.block), covering.wins
('8.0.0.0-8.255.255.255', True)
""",
    "Status": """
>>> with geolookup.open() as geo:
...     status = geo.status()
>>> status.generation, status.geolocations, status.stale, status.problem
(1, 1, False, None)
""",
    "Laid": """
>>> with geolookup.open_editor() as editor:
...     locid = editor.create(
...         country="DE", region="BE", city="Berlin", postalcode="",
...         latitude=52.5, longitude=13.4, dmacode="", areacode="",
...     )
...     laid = editor.get(locid)
>>> laid.place.city, laid.pending, len(laid.edits)
('Berlin', True, 1)
""",
    "Operation": """
>>> with geolookup.open_editor() as editor:
...     [row for row in editor.pending() if row.operation == geolookup.Operation.CREATE]
[]
""",
    "OutboxRow": """
>>> with geolookup.open_editor() as editor:
...     locid = editor.create(
...         country="DE", region="BE", city="Berlin", postalcode="",
...         latitude=52.5, longitude=13.4, dmacode="", areacode="",
...     )
...     row = editor.pending()[-1]
>>> row.locid == locid, str(row.state), row.problem
(True, 'queued', None)
""",
    "EditState": """
>>> with geolookup.open_editor() as editor:
...     editor.outbox(geolookup.EditState.HELD, geolookup.EditState.REJECTED)
[]
""",
    "Settings": """
>>> settings = geolookup.Settings(url="https://geo.example.com", max_age="36h")
>>> settings.max_age_s
129600.0
>>> settings.url, settings.stale
('https://geo.example.com', 'warn')
""",
    "RunFailure": """
>>> with geolookup.open() as geo:
...     [(failure.run, failure.stage, failure.message) for failure in geo.status().failures]
[]
""",
    "StateCheck": """
>>> with geolookup.open() as geo:
...     [(check.name, check.verdict) for check in geo.checks()][2:]
[('edits', 'ok'), ('lock', 'ok'), ('runs', 'ok')]
""",
    "SourceStatus": """
>>> with geolookup.open() as geo:
...     [(source.name, source.kind, source.serves) for source in geo.status().sources]
[('service', 'service', True)]
""",
    "SitesSettings": """
>>> geolookup.SitesSettings(fields={"city": "Place"}).fields["city"]
'Place'
""",
    "SourceSettings": """
>>> office = geolookup.SourceSettings(name="office", location="/srv/geo/office.csv")
>>> settings = geolookup.Settings(url="https://geo.example.com", sources=(office,))
>>> [source.name for source in settings.stack]
['service', 'office']
""",
    "export": """
>>> with geolookup.open() as geo, open("corrected.mmdb", "wb") as file:
...     written = geolookup.export(geo, "mmdb", file)
>>> written.ranges, written.warnings
(1, ())
""",
    "Exported": """
>>> with geolookup.open() as geo:
...     written = geolookup.export(geo, "csv", "ranges.csv", fields="country,latitude")
>>> written.ranges, written.size_bytes, written.attributions
(1, 58, ())
""",
    "ExportForm": """
>>> with geolookup.open() as geo:
...     try:
...         geolookup.export(geo, "xml", "ranges.xml")
...     except geolookup.SettingsError as error:
...         print(error)
unknown format 'xml': the formats are mmdb, geofeed, csv, parquet
""",
    "LayerChoice": """
>>> with geolookup.open() as geo:
...     geolookup.export(geo, "csv", "default.csv", layer="default").ranges
1
""",
    "Layer": """
>>> with geolookup.open() as geo:
...     list(geo.segments(4, "custom"))
[]
""",
    "Reference": """
>>> with geolookup.open(as_of=1) as then, geolookup.open(as_of="served") as now:
...     then.lookup("8.8.8.8") == now.lookup("8.8.8.8")
True
""",
    "StaleRule": """
>>> with geolookup.open(max_age="36h", stale="refuse") as geo:
...     geo.status().stale_rule
'refuse'
""",
    "GeoLookupError": """
>>> try:
...     geolookup.open().lookup("8.8.8")
... except geolookup.GeoLookupError as error:
...     print(type(error).__name__)
InvalidAddressError
""",
}
