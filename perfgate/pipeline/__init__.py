"""Floor 4. The only room that knows the order of the steps.

pull request -> configuration of each side -> worktrees -> facts of each model -> which are touched -> plan ->
interleaved measurement -> database -> verdict -> report. ``measure`` goes as far as ``Measurements``; ``run`` goes
on to the report; ``publish`` starts from an artifact; ``calibrate`` measures a revision against itself.
"""
