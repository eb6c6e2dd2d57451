"""The example team's vision models."""
