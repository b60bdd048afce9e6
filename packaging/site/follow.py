#!/usr/bin/env python3
"""follow.py SITE: follows every link of a built site to its file and its heading; those to other hosts are only counted."""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The places of a page, and what it refers to."""

    def __init__(self, text):
        super().__init__()
        self.places, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.places.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        self.links += filter(None, (attributes.get("href"), attributes.get("src")))


def main():
    site = Path(sys.argv[1]).resolve()
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    followed, elsewhere, broken = 0, 0, []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                elsewhere += 1
                continue
            # The page of errors is served for any address, so its links begin at the site's root.
            base = site if parts.path.startswith("/") else path.parent
            target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            place = unquote(parts.fragment)
            followed += 1
            if not target.exists():
                broken.append(f"{path.relative_to(site)}: {link}: no such file")
            elif place and target in pages and place not in pages[target].places:
                broken.append(f"{path.relative_to(site)}: {link}: no such place")
    print("\n".join(broken + [f"{len(pages)} pages, {followed} links followed, {elsewhere} to other hosts, {len(broken)} broken"]))
    sys.exit(1 if broken or not pages else 0)


if __name__ == "__main__":
    main()
