"""Results of earlier calls and processes: plans, prices of steps, gains, and why a plan was not found."""
