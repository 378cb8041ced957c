# SPDX-License-Identifier: Apache-2.0
"""Existing storage: third-party copies between its doors with the user's credentials, within a budget."""
