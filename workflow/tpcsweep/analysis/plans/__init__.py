# SPDX-License-Identifier: Apache-2.0
"""Plans from fitted models: settings for a target throughput."""
