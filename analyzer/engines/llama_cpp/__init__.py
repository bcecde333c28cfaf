"""llama.cpp: an engine of buffers. Each is computed from the model and the flags and then asked for; nothing is a share of the card."""
