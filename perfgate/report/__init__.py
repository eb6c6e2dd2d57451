"""Floor 3. ``Report`` (and ``Measurements``, for the pairs) in; comment, job summary, HTML page and JSON out.

Everything here is pure except :mod:`perfgate.report.write`. Start reading at ``write.texts``.

=============  ==================================================================
module         what it holds
=============  ==================================================================
``write``      all outputs of a run, into a folder
``comment``    the pull request comment and the job summary
``fit``        cutting a view to GitHub's size limits, least important first
``html``       the self-contained page
``document``   report.json
``view``       what the templates see, in the order in which it is read
``rows``       one line of a table, numbers already turned into text
``operators``  the table "Operators behind the change"
``counts``     F, M, I and all else that was counted, as text
``chart``      the distribution of the pair ratios as SVG
``filters``    small pure functions: records -> words
``escape``     untrusted text -> harmless text
``templates``  the Jinja2 environments
``schemas``    writes the JSON Schemas that the package ships
=============  ==================================================================
"""
