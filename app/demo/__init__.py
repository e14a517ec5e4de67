"""Demo: sample episodes, reference models and the whole job on them."""
