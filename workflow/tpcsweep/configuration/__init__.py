# SPDX-License-Identifier: Apache-2.0
"""What may be asked for: sweeps, testbeds and runs, read from files and checked before anything is deployed."""
