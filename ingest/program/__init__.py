"""ExecuTorch programs (.pte): methods, instructions, planned memory."""
