"""What users attach to captures: labels, metrics, phases."""
