"""What finds a faster kernel: imported once products have paid for it, or when a user asks."""
