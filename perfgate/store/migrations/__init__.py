"""Room ``store``: Alembic's folder. One file for each schema in ``versions``; never edited once released."""
