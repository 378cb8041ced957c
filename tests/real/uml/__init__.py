# SPDX-License-Identifier: Apache-2.0
"""What tests run inside user-mode-linux."""
