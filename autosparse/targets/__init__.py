"""Values of decisions as data: `priors.json` and `policy.json`, which the module `priors` reads."""
