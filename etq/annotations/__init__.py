"""What users say of captures: labels, metrics, phases."""
