"""Two sweeps against each other, cell by cell and over all cells."""
