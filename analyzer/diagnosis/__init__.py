"""Facts and ledgers → findings: the root cause against its consequences, how sure, on which lines, with which fixes."""
