"""Judge configs: keys, files, trust of hosts and key variables."""
