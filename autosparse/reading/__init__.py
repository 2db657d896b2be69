"""What is read from files beside plain Matrix Market texts: compressed ones, archives, open files, tensors."""
