"""Floor 3, graph. A trace of one step in, its counted graph out; two graphs in, their difference out. No torch."""
