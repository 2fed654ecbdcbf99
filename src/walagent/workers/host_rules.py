"""The rules for tools over HTTP, from the configuration of this process."""

from collections.abc import Iterator
from ipaddress import ip_network

from walagent.config import Config
from walagent.config.environment import Environment
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


def _rules(config: Config) -> Iterator[tuple[str, HostRules]]:
    for host, given in config.tools.http_hosts.items():
        networks = tuple(ip_network(each) for each in given.networks)
        yield host, HostRules(frozenset(given.secrets), networks)
    for entry in config.http_tools.values():
        secrets = secrets_of(entry.url, entry.headers, entry.body)
        yield host_of(entry.url), HostRules(secrets, tuple(map(ip_network, entry.networks)))
