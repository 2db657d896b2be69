"""Values of decisions as data: `priors.json`, `policy.json` and `first_look.json`, which the module `priors` reads."""
