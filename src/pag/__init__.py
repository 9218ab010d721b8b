"""Planning attention for sequence-to-sequence models."""
