"""Ollama: estimates before the load, llama.cpp's buffers (or those of its own engine) as measurements."""
