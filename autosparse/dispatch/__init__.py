"""Path of every product: imported with the first product, small, and independent of the tuning modules."""
