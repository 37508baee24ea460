"""Formats of values, under PyFlink's paths: one module per format."""
