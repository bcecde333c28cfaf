"""What each engine does with memory: its identities by version, its flags, and the solver. Pure arithmetic, no input or output."""
