# SPDX-License-Identifier: Apache-2.0
"""History of a repeated sweep: dated runs, change points, and settings that changed with them."""
