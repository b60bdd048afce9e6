"""Hooks of MkDocs: names of pages in the text become links, and names of files in the tree stay as they are."""
import re

from mkdocs.exceptions import Abort

PAGE = re.compile(r"(?<![\[`])`(?:docs/)?([\w./-]+\.md)`(?!`)|(?<![\w/`(\[.])docs/([\w/-]+\.md)\b")


def on_nav(nav, config, files):
    """Every page is in the menu."""
    for file in files.documentation_pages():
        if file.page is None or (file.page.parent is None and file.page not in nav.items):
            raise Abort(f"{file.src_path} is not in the menu: add it to packaging/site/mkdocs.yml")


def on_page_markdown(markdown, page, config, files):
    """Links where a page of the site has that name: seen from this page's folder first, then from the root."""
    folder = page.file.src_path.rpartition("/")[0]
    up = "../" * len(list(filter(None, folder.split("/"))))

    def linked(match):
        name = match[1] or match[2]
        if match[1] and files.get_file_from_path(f"{folder}/{name}" if folder else name):
            target = name
        elif files.get_file_from_path(name):
            target = up + name
        else:
            return match[0]
        return f"[{name}]({target})"

    lines = []
    fenced = False
    for line in markdown.split("\n"):
        fenced ^= line.startswith("```")
        lines.append(line if fenced or line.startswith(("    ", "```")) else PAGE.sub(linked, line))
    return "\n".join(lines)


def on_post_page(output, page, config):
    """Codes of errors and names of variables in tables stay on one line: a browser breaks them at hyphens."""
    return output.replace("</head>", "<style>td:first-child code{white-space:nowrap}</style></head>", 1)
