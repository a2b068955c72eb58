"""Measures how well the product does what it promises, with the very code that runs in production."""
