"""What may run on a GPU, and what each of it is expected to take."""
