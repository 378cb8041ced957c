# SPDX-License-Identifier: Apache-2.0
"""XRootD: configuration of its servers, credentials, probes, and what its monitoring says."""
