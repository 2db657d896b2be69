"""Value types that all parts of the package share: patterns, formats, schedules, problems, plans and target
machines.
"""
