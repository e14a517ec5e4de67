"""Vision-language models behind an OpenAI-compatible server: requests, retries, concurrency and replies."""
