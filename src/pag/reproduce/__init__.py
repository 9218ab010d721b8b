"""`pag reproduce`: the paper's tables and our studies, each measured by one command."""
