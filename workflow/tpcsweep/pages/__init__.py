# SPDX-License-Identifier: Apache-2.0
"""Pages and figures: what turns a dataset into pictures, findings and an HTML page."""
