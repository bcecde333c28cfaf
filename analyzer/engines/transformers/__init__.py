"""Transformers and accelerate in a script of one's own: no budget, no pool, PyTorch's sentence is the ledger."""
