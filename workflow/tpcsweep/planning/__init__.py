"""Answers of fitted models: what a throughput takes."""
