"""Hits and readings → attempts with their facts, settings, series and events; what repeats is bounded here."""
