# SPDX-License-Identifier: Apache-2.0
"""Publications reproduced with the product. They use all of it, and nothing of it uses them."""
