"""Value types that the whole package shares: patterns, formats, schedules, problems, plans and target machines."""
