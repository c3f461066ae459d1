"""The command line: each step as one command."""
