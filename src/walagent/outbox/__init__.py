"""The kind `delivery`: messages of the outbox leave by webhook, e-mail or Slack."""
