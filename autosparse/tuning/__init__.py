"""The search for a faster kernel: imported when products have paid for tuning, or when a user calls `tune`."""
