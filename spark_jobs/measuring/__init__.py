"""`continuum`: the result of each stamp, policy and wait on the messages of a trace."""
