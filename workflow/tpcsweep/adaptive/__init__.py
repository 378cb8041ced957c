# SPDX-License-Identifier: Apache-2.0
"""Where to measure next, and a sweep that is measured so, in rounds."""
