"""Checks of everything that could keep a field team from seeing its network."""
