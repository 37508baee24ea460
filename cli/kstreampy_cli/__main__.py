"""`python -m kstreampy_cli`: the command without its script."""

from kstreampy_cli.app import main

main()
