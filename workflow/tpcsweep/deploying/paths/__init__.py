# SPDX-License-Identifier: Apache-2.0
"""Network path between source and destination: created, verified, sampled and removed."""
