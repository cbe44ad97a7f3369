"""Where answers can be kept: one contract, an SQLite file or a PostgreSQL database behind it, others by entry point."""
