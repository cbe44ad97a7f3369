"""The files of a run folder: config, plan, verdicts, tables and metadata."""
