"""Clients of judges: one module per interface."""
