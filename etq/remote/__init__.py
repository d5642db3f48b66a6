"""The client of a team's server: captures are pushed to it, and its warehouse is read by its API."""
