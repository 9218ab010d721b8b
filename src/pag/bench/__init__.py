"""`pag bench`: how fast training and decoding are here, beside the plain loop and beside JoeyNMT."""
