"""The pattern library's runner: load and check the YAML, find the few lines that matter, take the values out."""
