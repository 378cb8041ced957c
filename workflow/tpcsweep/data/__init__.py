# SPDX-License-Identifier: Apache-2.0
"""The data: a cell's result and its file, the dataset with its variables and flags, import and export."""
