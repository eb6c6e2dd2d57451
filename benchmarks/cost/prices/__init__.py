"""Makes ``perfgate/hardware/prices/*.csv`` anew from public price lists; never imported by the package."""
