"""Other machinery for the same numbers: a database that tallies what does not fit into memory. Files in, arrays out."""
