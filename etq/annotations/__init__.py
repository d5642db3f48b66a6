"""Annotations that users attach to captures: labels, metrics, phases."""
