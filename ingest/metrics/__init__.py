"""Metrics beside captures: logs of runners and apps, sidecar files."""
