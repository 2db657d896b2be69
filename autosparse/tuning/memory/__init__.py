"""What earlier calls and processes found: plans, prices and gains, and why a plan was not found."""
