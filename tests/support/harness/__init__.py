"""What tests of the whole system share: servers, the command line, the outside service, and what is left behind.

Only the standard library. Programs come from $SANDGLASS_BUILD/bin, sources from $SANDGLASS_SOURCE.
"""
