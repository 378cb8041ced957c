# SPDX-License-Identifier: Apache-2.0
"""Sweeps, testbeds and runs as files configure them, checked before anything is deployed."""
