"""TGI: a pool engine that finds its pool by a warm-up and prints blocks and tokens, no sizes."""
