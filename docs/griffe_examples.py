"""Gymnasium's docstrings, and so gymvec's, say "Example:" where Google's style has "Examples:"."""

import re

import griffe


class Examples(griffe.Extension):
    """Lets such a section be read as examples."""

    def on_instance(self, *, obj, **_):
        """Called for each object that is found."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(
                r"^Example:$", "Examples:", obj.docstring.value, flags=re.M
            )
