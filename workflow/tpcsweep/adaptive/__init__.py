"""Where to measure next, and a sweep that is measured so, in rounds."""
