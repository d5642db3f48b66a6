"""From files to rows: what ingestors read, stored in tables."""
