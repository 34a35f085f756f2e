"""Checks of deployment, machine and line before a team goes to the field."""
