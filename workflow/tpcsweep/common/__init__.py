# SPDX-License-Identifier: Apache-2.0
"""Parts without a subject of their own: files, locks, numbers, processes, signals, URLs and the installation."""
