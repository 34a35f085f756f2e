"""Every scheme, the papers' and ours, on the same stream of events: what each costs and what it is worth."""
