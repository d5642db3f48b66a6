"""Metrics of captures: logs of runners and apps, sidecar files."""
