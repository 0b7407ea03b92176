# SPDX-License-Identifier: Apache-2.0
"""The modules that Nova's services load; they import no other package of iat_nova."""
