"""Measurement and fitting of cost models on a machine; used by the command line, never by a product."""
