"""TensorRT-LLM: the paged pool takes a fraction of what is free once the engine is loaded."""
