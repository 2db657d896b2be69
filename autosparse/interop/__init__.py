"""What makes other libraries and ours work together; nothing here imports one that the process has not imported."""
