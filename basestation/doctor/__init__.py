"""What could keep a field team from seeing its network, checked one thing at a time."""
