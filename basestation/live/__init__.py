"""The live base station: from packets on a line to deliveries in causal order."""
