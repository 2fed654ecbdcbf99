"""The commands for agents and what they have: attachments, models, tools and personas."""
