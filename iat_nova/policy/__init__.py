# SPDX-License-Identifier: Apache-2.0
"""The declarative policy: YAML rendered by Jinja2, validated, compiled to tenants."""
