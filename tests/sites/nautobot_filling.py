"""Run inside of Nautobot (``nautobot-server shell``): fills it with 2,000 sites and 20 VRFs. No module of the tests.

What it makes is counted by arithmetic in `tests.sites.nautobot`, which says what must come of it.
"""

from decimal import Decimal

from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from nautobot.dcim.models import Device, DeviceType, Interface, Location, LocationType, Manufacturer
from nautobot.extras.models import Role, Status
from nautobot.ipam.models import VRF, IPAddress, IPAddressToInterface, Namespace, Prefix
from nautobot.users.models import ObjectPermission, Token

SITES, VRFS, DEVICES = 2000, 20, 40
active, deprecated = Status.objects.get(name="Active"), Status.objects.get(name="Deprecated")

of_prefix, of_device = (ContentType.objects.get_for_model(model) for model in (Prefix, Device))
region_type = LocationType.objects.create(name="Region", nestable=True)
site_type = LocationType.objects.create(name="Site", parent=region_type)
floor_type = LocationType.objects.create(name="Floor", parent=site_type)
for kind in (region_type, site_type, floor_type):
    kind.content_types.set([of_prefix, of_device])

world = Location.objects.create(name="World", location_type=region_type, status=active)
COUNTRIES = [
    ("Germany", "Bavaria", 48.1, 11.6, "Marienplatz {0}\n80331 München", "Europe/Berlin"),
    ("FR", "Île-de-France", 48.86, 2.35, "{0} rue de Rivoli\n75001 Paris", "Europe/Paris"),
    ("United States", "Texas", 30.27, -97.74, "{0} Congress Ave\nAustin, TX 78701", "America/Chicago"),
    ("alpine-north", "Tirol", 47.26, 11.39, "Maria-Theresien-Straße {0}\n6020 Innsbruck", "Europe/Vienna"),
]
regions = []
for country, region, *rest in COUNTRIES:
    above = Location.objects.create(name=country, location_type=region_type, parent=world, status=active)
    regions.append((Location.objects.create(name=region, location_type=region_type, parent=above, status=active), rest))

sites = []
for number in range(SITES):
    region, (latitude, longitude, address, zone) = regions[number % len(regions)]
    sites.append(
        Location.objects.create(
            name=f"Site {number:04}",
            location_type=site_type,
            parent=region,
            status=active,
            latitude=Decimal(str(round(latitude + number % 50 / 1000, 4))),
            longitude=Decimal(str(round(longitude + number % 70 / 1000, 4))),
            physical_address=address.format(number + 1),
            time_zone=zone,
        )
    )
floors = [
    Location.objects.create(name=f"Floor {number}", location_type=floor_type, parent=sites[0], status=active)
    for number in (1, 2)
]

main = Namespace.objects.get(name="Global")
vrfs = []
for number in range(VRFS):
    namespace = main if number < 10 else Namespace.objects.create(name=f"Customer {number}")
    vrfs.append(VRF.objects.create(name=f"CUST-{number:02}", namespace=namespace, rd=f"65000:{number}"))


def prefix(text, where=None, *, namespace=main, vrf=None, status=active, kind="network"):
    made = Prefix(prefix=text, namespace=namespace, status=status, type=kind)
    made.save()
    for each in where or []:
        made.locations.add(each)
    if vrf is not None:
        vrf.prefixes.add(made)
    return made


prefix("10.0.0.0/8", kind="container")
prefix("2001:db8::/32", kind="container")
for number, site in enumerate(sites):
    # The site's network, half of it again without a location, which inherits; and IPv6.
    prefix(f"10.{number // 256}.{number % 256}.0/24", [site])
    prefix(f"10.{number // 256}.{number % 256}.0/25")
    prefix(f"2001:db8:{number:x}::/48", [site])
# Twenty routing domains with the same addresses, ten of them in namespaces of their own.
for number, vrf in enumerate(vrfs):
    if number >= 10:
        prefix("172.16.0.0/12", kind="container", namespace=vrf.namespace, vrf=vrf)
    for at in range(20):
        site = sites[(number * 20 + at) % SITES]
        if number >= 10:
            prefix(f"172.16.{at}.0/24", [site], namespace=vrf.namespace, vrf=vrf)
        else:
            prefix(f"172.{20 + number}.{at}.0/24", [site], vrf=vrf)
prefix("10.200.0.0/24", floors)  # of both floors: of their site
prefix("10.201.0.0/24", status=deprecated, where=[sites[1]])
prefix("192.0.2.0/24")  # of no place

role = Role.objects.create(name="Router")
role.content_types.set([of_device])
maker = Manufacturer.objects.create(name="Maker")
model = DeviceType.objects.create(manufacturer=maker, model="Model")
for number in range(DEVICES):
    device = Device.objects.create(
        name=f"router-{number}", device_type=model, role=role, status=active, location=sites[number]
    )
    loopback = Interface.objects.create(device=device, name="lo0", type="virtual", status=active)
    address = IPAddress(address=f"192.0.2.{number + 1}/32", status=active, namespace=main)
    address.save()
    IPAddressToInterface.objects.create(interface=loopback, ip_address=address)
try:
    from nautobot.ipam.models import IPAddressRange
except ImportError:
    IPAddressRange = None
if IPAddressRange is not None:
    made = IPAddressRange(start_address="10.200.0.10", end_address="10.200.0.20", status=active, namespace=main)
    made.save()

users = get_user_model()
everyone = users.objects.create(username="reader", is_superuser=True, is_active=True)
Token.objects.create(user=everyone, key="a" * 40)
# One that sees neither the longer prefixes nor IPv6, and all that the other lists have.
few = users.objects.create(username="few", is_active=True)
Token.objects.create(user=few, key="b" * 40)


def may_view(app, model, constraints=None):
    permission = ObjectPermission.objects.create(name=f"few {model}", actions=["view"], constraints=constraints)
    permission.object_types.set([ContentType.objects.get(app_label=app, model=model)])
    permission.users.set([few])


for app, model in (
    ("extras", "status"),
    ("ipam", "namespace"),
    ("ipam", "vrf"),
    ("dcim", "locationtype"),
    ("dcim", "location"),
    ("ipam", "ipaddress"),
    ("ipam", "ipaddressrange"),
    ("dcim", "device"),
    ("dcim", "interface"),
):
    may_view(app, model)
may_view(
    "ipam", "prefix", {"prefix__net_contained": "10.0.0.0/16"} if False else {"prefix_length__lte": 24, "ip_version": 4}
)
print("filled", Location.objects.count(), Prefix.objects.count(), VRF.objects.count(), IPAddress.objects.count())
