# SPDX-License-Identifier: Apache-2.0
"""What Nova itself loads; imports iat_nova.extra_specs and nothing else of ours."""
