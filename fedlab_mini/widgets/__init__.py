"""Widgets: figures that a reader can change. The browser computes, Python checks; no server needed.

Each is one ES module with a style sheet beside it. It works in JupyterLab and, with the state that
the notebook stores, on the book's site.
"""

from .explorer import ShapleyExplorer

__all__ = ["ShapleyExplorer"]
