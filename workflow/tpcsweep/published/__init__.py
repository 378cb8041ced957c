"""The figures and tables of publications, each with the claims that it carries."""
