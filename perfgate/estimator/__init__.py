"""Floor 3, estimator. Examples of steps in, a fitted model out; a question in, an estimate with an interval out."""
