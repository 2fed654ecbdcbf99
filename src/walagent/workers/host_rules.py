"""The rules for tools over HTTP, from the configuration of this process."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from walagent.config import Config
from walagent.config.environment import Environment
from walagent.tools.addresses import Address, Network, is_allowed
from walagent.tools.http import HostRules, HttpTools, host_of
from walagent.tools.http_templates import secrets_of


def http_tools(config: Config, environment: Environment) -> HttpTools:
    """Allow the hosts of the file's tools, each with their secrets, and those of `http_hosts`."""
    return HttpTools(host_rules(config), environment.find)


def host_rules(config: Config) -> dict[str, HostRules]:
    """Return what requests to each host can carry."""
    rules: dict[str, HostRules] = {}
    for host, each in _rules(config):
        rules[host] = rules.get(host, HostRules()) | each
    return rules


def missing_for_tools(config: Config, environment: Environment) -> Iterator[tuple[str, str]]:
    """Say what calls of the file's tools would lack in this process, each with its fix."""
    for name, entry in config.http_tools.items():
        for secret in sorted(secrets_of(entry.url, entry.headers, entry.body)):
            if environment.find(secret) is None:
                yield (
                    f"http_tools.{name}: variable or credential {secret} is not set",
                    f"Set {secret} where walagent run is started.",
                )
        if (host := _literal(entry.url)) and not is_allowed(host, _networks(entry.networks)):
            yield (
                f"http_tools.{name}: {host} is not a public address: calls are refused",
                f"Add networks: [{host}/{host.max_prefixlen}] to http_tools.{name}.",
            )


def _literal(url: str) -> Address | None:
    """Return the address that a URL names: resolving a name is left to the calls."""
    host = urlsplit(url).hostname or ""
    with suppress(ValueError):
        return ip_address("127.0.0.1" if host == "localhost" else host)
    return None


def _networks(given: Iterable[str]) -> tuple[Network, ...]:
    return tuple(map(ip_network, given))


def _rules(config: Config) -> Iterator[tuple[str, HostRules]]:
    for host, given in config.tools.http_hosts.items():
        yield host, HostRules(frozenset(given.secrets), _networks(given.networks))
    for entry in config.http_tools.values():
        secrets = secrets_of(entry.url, entry.headers, entry.body)
        yield host_of(entry.url), HostRules(secrets, _networks(entry.networks))
