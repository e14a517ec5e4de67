"""Vision-language models through transformers on this machine: schemas, choices, samples and clips."""
