"""SGLang: a pool engine whose budget is a share of the memory that was free before loading."""
