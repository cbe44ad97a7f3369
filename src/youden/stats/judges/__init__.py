"""Statistics of judges: agreement, shifts between judges, position bias."""
