"""The test bed: real processes on loopback, byte-exact clients, and readers for what the processes say.

Nothing here knows how the sidecar works inside; it knows the public contract only."""
