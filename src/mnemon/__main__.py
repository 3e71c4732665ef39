"""`python -m mnemon` is `mnemon`."""

from mnemon.cli import main

main()
