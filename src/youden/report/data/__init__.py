"""What a report shows, as plain objects without HTML."""
