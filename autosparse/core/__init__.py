"""Values that every part shares: patterns, formats, schedules, problems, plans and target machines."""
