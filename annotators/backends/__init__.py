"""Back ends: where models run, in this process or behind an OpenAI-compatible server."""
