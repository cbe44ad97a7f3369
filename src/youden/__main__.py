"""`python -m youden`: the command line."""

from youden.cli import main

main()
