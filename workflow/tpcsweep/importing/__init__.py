"""Measurements from elsewhere as a dataset."""
