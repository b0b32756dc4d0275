"""Sites as an inventory has them that answers by REST: NetBox, Nautobot."""
