# SPDX-License-Identifier: Apache-2.0
"""Links of a mesh, sites × sites: slow sites and slow paths, goals, and settings for transfer services."""
