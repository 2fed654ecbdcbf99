"""What sends messages of the outbox, from the configuration of this process."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from walagent.config import Config
from walagent.config.environment import Environment
from walagent.outbox.email import EmailSender, SmtpServer
from walagent.outbox.sender import Sender
from walagent.outbox.slack import SlackApp, SlackSender
from walagent.outbox.webhook import Post, WebhookSender
from walagent.workers.host_rules import host_rules


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What deliveries need.

    Args:
        senders: by kind of channel.
        public_url: where the pages of links are served; None: messages have no links.
    """

    senders: Mapping[str, Sender] = field(default_factory=dict[str, Sender])
    public_url: str | None = None


NOTHING_GOES_OUT: Final = Outgoing()


def outgoing(config: Config, environment: Environment) -> Outgoing:
    """Create the senders that the file configures.

    Raises:
        ConfigError: an extra is not installed.
    """
    post = Post(host_rules(config), environment.find)
    senders: dict[str, Sender] = {
        "webhook": WebhookSender(post),
        "slack": SlackSender(post, slack_app(config)),
    }
    if (smtp := config.outbox.smtp) is not None:
        server = SmtpServer(
            smtp.host, smtp.port, smtp.sender, smtp.security, smtp.user, smtp.password
        )
        senders["email"] = EmailSender(server, environment.find)
    return Outgoing(senders, config.http.public_url)


def slack_app(config: Config) -> SlackApp:
    """Return the app in Slack that the file names."""
    slack = config.outbox.slack
    return SlackApp(slack.bot_token, slack.app_token, slack.base_url) if slack else SlackApp()
