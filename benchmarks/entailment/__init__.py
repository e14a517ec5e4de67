"""The recipe of the reference entailment model, and its measurement: words, generated pairs, training, results."""
