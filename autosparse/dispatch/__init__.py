"""What a product runs through: small, imported with the first product, and free of tuning."""
