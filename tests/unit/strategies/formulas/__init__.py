# SPDX-License-Identifier: Apache-2.0
"""A host made of formulas: a strategy's closed loop in tests, within milliseconds a second."""
