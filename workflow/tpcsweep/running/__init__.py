# SPDX-License-Identifier: Apache-2.0
"""A run: which deployments it takes, how each is brought up, measured, published and torn down, and what is left."""
