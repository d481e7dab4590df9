"""The interfaces between layers: Protocols, with their parameter and result types. No behaviour."""
