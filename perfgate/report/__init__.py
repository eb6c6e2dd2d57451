"""Floor 3. ``Report`` (and ``Measurements``, for the pairs) in; comment, job summary, HTML page and JSON out.

Everything here is pure except :mod:`perfgate.report.write`. Start reading at ``write.texts``.

==================  =============================================================
module              what it holds
==================  =============================================================
``write``           all outputs of a run, into a folder
``comment``         the pull request comment and the job summary
``fit``             cutting a view to GitHub's size limits, least important first
``html``            the self-contained page
``document``        report.json
``view``            what the templates see, in the order in which it is read
``rows``            one line of a table, numbers already turned into text
``operators``       the table "Operators behind the change"
``counts``          F, M, I and all else that was counted, as text
``costs``           configurations, roofs and fleet plans as text
``workload_costs``  rows and facts of the section "Cost and roofline"
``money``           the comment's line "Money"
``fronts``          the Pareto front as a chart of letters
``cost_page``       the cost of one workload on the page
``chart``           the distribution of the pair ratios as SVG
``roofline_chart``  a step and its operators under the roof as SVG
``pareto_chart``    cost against utilisation as SVG
``axes``            places, ticks and labels of a drawing
``svg``             the shapes of a drawing
``filters``         small pure functions: records -> words
``escape``          untrusted text -> harmless text
``templates``       the Jinja2 environments
``schemas``         writes the JSON Schemas that the package ships
==================  =============================================================
"""
