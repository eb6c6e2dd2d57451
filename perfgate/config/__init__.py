"""Floor 2. ``perfgate.toml`` in, :class:`~perfgate.records.workload.SideConfig` and ``Policy`` out.

Start reading at ``load.load``. Pure: no file is opened here; the caller hands over the texts.
"""
