"""Floor 3. Evidence and policy in, one frozen :class:`~perfgate.records.report.Report` out; pure.

======================  =================================================================
module                  what it answers
======================  =================================================================
``plan``                which test is fixed before measuring: M, alpha, looks
``judge``               the whole run: :func:`~perfgate.gate.judge.judge`
``workloads``           one workload: joins base and head, collects its rows
``noisy``               rows decided by statistics over pairs
``money``               rows in US dollars, and findings on money in words
``exact``               rows compared exactly over probes
``limits``              which limit, ceiling and mode are in force for a metric
``accept``              regressions accepted on purpose
``reasons``             causes as far as known
``operators``           which operators changed, in words; where counts cannot be compared
``why``                 the two lines that people read
``verdicts``            the one table of verdicts, exit codes and check conclusions
======================  =================================================================

Names from the pull request stay raw text here: whoever renders escapes them.
"""
