"""XRootD: configuration of its servers, credentials, probes, and what its monitoring says."""
