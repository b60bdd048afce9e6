"""Hooks of MkDocs: names of pages in the text become links, and names of files in the tree stay as they are."""
import re

from mkdocs.exceptions import Abort

STYLE = """<style>
td:first-child code { white-space: nowrap }
[role=main] table { display: block; overflow-x: auto; font-size: .9rem }
[role=main] td, [role=main] th { padding: .35rem .5rem }
[role=main] pre { overflow-x: auto }
[role=main] td code { border: none; padding: 0; background: none; font-size: .82rem }
body::before { background: none }
@media (min-width: 1200px) { .container { max-width: 1400px } }
@media (prefers-color-scheme: dark) {
  body, .modal-content, .dropdown-menu { background: #16181b; color: #d4d7da }
  h1, h2, h3, h4, h5, h6, th, td, code, pre, .dropdown-item { color: #d4d7da }
  pre, [role=main] pre code, code { background: #202327; border-color: #3a3f44 }
  .table, .table td, .table th, .table thead th, hr { border-color: #3a3f44; color: #d4d7da }
  .table-striped tbody tr:nth-of-type(odd) { background: #202327 }
  .bs-sidebar, .dropdown-menu { background: #202327 !important; border-color: #3a3f44 }
  .navbar.bg-primary { background: #1d4e89 !important }
  .dropdown-item:hover, .dropdown-item:focus { background: #30353a; color: #fff }
  .form-control { background: #202327; color: #d4d7da; border-color: #3a3f44 }
  [role=main] a, .bs-sidebar a, .modal-content a { color: #74b3ff }
  .bs-sidebar .navbar-nav .nav-link { color: #74b3ff }
  [role=main] img { background: #fff }
}
</style>"""
NAMED = re.compile(r"\[([\w./-]+\.md)\](\([\w./-]+\.md[#\w-]*\))")
PAGE = re.compile(r"(?<![\[`])`(?:docs/)?([\w./-]+\.md)`(?!`)|(?<![\w/`(\[.])docs/([\w/-]+\.md)\b")


def on_nav(nav, config, files):
    """Every page is in the menu."""
    for file in files.documentation_pages():
        if file.page is None or (file.page.parent is None and file.page not in nav.items):
            raise Abort(f"{file.src_path} is not in the menu: add it to packaging/site/mkdocs.yml")


def on_page_markdown(markdown, page, config, files):
    """Links where a page of the site has that name: seen from this page's folder first, then from the root.  A link shows the
    page's title in the menu."""
    folder = page.file.src_path.rpartition("/")[0]
    up = "../" * len(list(filter(None, folder.split("/"))))

    def beside(name):
        return files.get_file_from_path(f"{folder}/{name}" if folder else name)

    def linked(match):
        name = match[1] or match[2]
        if match[1] and beside(name):
            return f"[{beside(name).page.title}]({name})"
        there = files.get_file_from_path(name)
        return f"[{there.page.title}]({up + name})" if there else match[0]

    def titled(match):
        there = beside(match[1]) or files.get_file_from_path(match[1])
        return f"[{there.page.title}]{match[2]}" if there else match[0]

    lines = []
    fenced = listed = False
    for line in markdown.split("\n"):
        fenced ^= line.startswith("```")
        if line.startswith("    ") and lines[-1:] == [""] and listed and not fenced:
            raise Abort(f"{page.file.src_path}: '{line.strip()}' follows a list and so becomes its text: write a paragraph between")
        if line and not line.startswith("    "):
            listed = line.startswith(("- ", "* ", "  ")) or re.match(r"\d+\. ", line) is not None
        lines.append(line if fenced or line.startswith(("    ", "```")) else PAGE.sub(linked, NAMED.sub(titled, line)))
    return "\n".join(lines)


def on_post_page(output, page, config):
    """Codes of errors and names of variables in tables stay on one line; a table wider than the page has a bar of its own."""
    return output.replace("</head>", STYLE + "</head>", 1)
