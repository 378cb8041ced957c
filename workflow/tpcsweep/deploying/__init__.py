# SPDX-License-Identifier: Apache-2.0
"""Everything that a testbed puts up: XRootD servers, network paths, credentials, namespaces and cgroups."""
