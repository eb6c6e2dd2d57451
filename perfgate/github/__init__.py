"""Floor 3, the GitHub room: the event comes in; check run, comment, outputs and annotations go out.

=================  ============================================================================
module             what it does
=================  ============================================================================
``events``         environment and event file -> :class:`~perfgate.github.events.Event`
``artifact``       the measuring job's file, read as hostile input, checked against the event
``client``         a connection with bounded retries; the API's refusals as ``GitHubError``
``trusted``        what publishing needs of the base revision, through the API, without a checkout
``checks``         life cycle of the check run ``perfgate``: in progress, then always completed
``comments``       the one sticky comment of a pull request
``annotate``       ``Report`` -> annotations of the check run
``publish``        all of the above in order, for a report or for "not judged"
``outputs``        job summary, step outputs, workflow commands
``action``         the program that ``action.yml`` starts; standard library only, never imported
=================  ============================================================================

PyGithub is imported here only, and only inside ``client.connect``.
"""
