"""The commands for tenants, their principals, tokens and policies, and the audit."""
