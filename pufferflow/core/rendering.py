"""The environment in which templates are filled in; jinja2 is loaded with the first text, page or notebook output."""

from collections.abc import Callable
from typing import Any


def environment_of(
    package: str, *, autoescape: bool, finalize: Callable[[Any], Any], **options: Any
) -> Any:
    """Return an environment for the folder `templates` of a package; a name that is not given is an error.

    `finalize` returns what stands for a printed value, before it is escaped.

    >>> environment_of("pufferflow.core", autoescape=True, finalize=str).list_templates()
    ['notebook.css', 'notebook.html']
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        auto_reload=False,  # or each text would look for changes of its templates
        autoescape=autoescape,  # noqa: S701 - a text is no markup, a page is
        finalize=finalize,
        keep_trailing_newline=True,
        loader=PackageLoader(package),
        undefined=StrictUndefined,
        **options,
    )
