"""What the comparisons of captures find, and what they blame wrongly, on a real fleet: rates, with their errors."""
