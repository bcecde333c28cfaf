"""LMDeploy: the pool is a ratio, of the whole card in 0.2.0 and 0.2.1, of what the weights leave from 0.2.2 on."""
