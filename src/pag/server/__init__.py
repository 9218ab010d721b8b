"""`pag serve`: an HTTP API and a page in the browser for one or several models."""
