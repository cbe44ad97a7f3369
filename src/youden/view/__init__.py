"""The local server that shows runs, also runs in progress."""
