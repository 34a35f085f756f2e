"""Views: sinks that show what happens. Nothing depends on them."""
