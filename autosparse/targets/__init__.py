"""Values of decisions that no machine measures, as data: `priors.json`, which `priors` reads."""
