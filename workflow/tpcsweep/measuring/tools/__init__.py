# SPDX-License-Identifier: Apache-2.0
"""Transfer tools; each is one module, found by itself."""
