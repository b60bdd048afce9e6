"""docs/launching.md: its commands, and its manifests."""
import os
import re

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/launching.md")


def text():
    with open(PAGE) as file:
        return file.read()


def commands(name):
    """(script, line that it prints) of the blocks that are for these hosts."""
    marked = r"<!-- hosts: " + re.escape(name) + r"; prints: (.*?) -->\n```sh\n(.*?)```"
    return [(script, line) for line, script in re.findall(marked, text(), re.DOTALL)]


def blocks(language):
    return re.findall(r"```" + language + r"\n(.*?)```", text(), re.DOTALL)
