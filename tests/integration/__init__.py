"""Tests that need a broker."""
