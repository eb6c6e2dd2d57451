"""Floor 3, cost. Ways to run a model, offers and requirements in; Pareto set, cheapest plan, fleet out. Pure."""
