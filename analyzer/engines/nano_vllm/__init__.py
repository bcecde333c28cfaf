"""nano-vllm: vLLM's idea in little; it prints no log, a traceback is all there is."""
