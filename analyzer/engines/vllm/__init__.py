"""vLLM: what it does with memory, by version. Every function here is arithmetic over its arguments; sizes are whole bytes."""
