"""Values for graphics processors: what a kernel is emitted from, and what is known of a device."""
