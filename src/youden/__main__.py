"""`python -m youden`: the command line. It knows nothing else."""

from youden.cli import main

main()
