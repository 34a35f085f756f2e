"""What each stamp, policy and wait would have done with the messages of a trace."""
