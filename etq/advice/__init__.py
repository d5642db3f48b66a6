"""Advice: findings about a capture, decided and worded here on evidence that SQL measures."""
