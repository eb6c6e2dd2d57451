"""Floor 3, sampling. Which sample workloads to run next; pure: nothing runs here, and no network is built.

In: a design space, what was run, a budget. Out: conditions. Start reading at :func:`design.sequence` and
:func:`adaptive.choose`.

===============  =====================================================================
module           what it does
===============  =====================================================================
``networks``     families of networks and the ranges of their parameters
``work``         F, bytes, parameters and kernels of a sample network, from its parameters
``design``       space-filling conditions, stratified by family
``pace``         how long a condition will take, and how much memory; learns from those that ran
``adaptive``     the next condition: where the estimator is least sure, else what is least like all that ran
===============  =====================================================================
"""
