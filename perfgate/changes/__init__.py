"""Floor 3. Revisions and configuration in; checkouts, changed files, and which models are touched and why, out.

===============  ==========================================================================
``git``          runs the program git, safely
``revisions``    names -> commits: the merge base, in shallow clones too, or an error
``changed``      two commits -> the files that differ
``worktrees``    both sides checked out side by side, removed whatever happens
``submodules``   their submodules, from places that base knows
``lfs``          their LFS files, or the names of those that are missing
``modules``      tracked files <-> importable module names
``setup``        a side's ``setup`` command and interpreter
``touched``      which models are measured, and why the others are not
``harness``      bench code from base on both sides
``banners``      sentences on what differs between the two configurations
===============  ==========================================================================
"""
