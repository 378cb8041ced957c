"""Publications reproduced with the product. They use all of it, and nothing of it uses them."""
