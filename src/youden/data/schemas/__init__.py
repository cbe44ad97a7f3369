"""JSON Schemas of a run's files, shipped beside this page: one `<file>.schema.json` for each."""
