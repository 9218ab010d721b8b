"""One step of a search, rearranged for speed; `Seq2Seq.step` is the reference that it equals."""
