"""The seeds' experiments, each reproduced by one command."""
