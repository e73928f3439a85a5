"""A small continuous-batching LLM server on torch: the subject of the sample traces."""
