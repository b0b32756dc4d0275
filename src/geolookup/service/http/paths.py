"""What the guard and the access log know about an application's paths, and how they read a path."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The paths of an application that need special treatment; ``|`` joins those of several rooms."""

    #: A POST there changes nothing, so a token with the scope ``read`` is enough.
    reading_posts: frozenset[str] = frozenset()
    #: A GET there is answered by a stream that holds something open: `Limits.lists` counts them.
    lists: frozenset[str] = frozenset()
    #: Beginnings of paths whose rest is private, each with what the access log has in the path's place.
    private: Mapping[str, str] = field(default_factory=dict)

    def __or__(self, other: "Paths") -> "Paths":
        """The paths of both."""
        return Paths(
            reading_posts=self.reading_posts | other.reading_posts,
            lists=self.lists | other.lists,
            private={**self.private, **other.private},
        )

    def is_list(self, method: str, path: str) -> bool:
        """Whether the answer is one of the lists."""
        return method == "GET" and plain_path(path) in self.lists

    def only_reads(self, method: str, path: str) -> bool:
        """Whether the request changes nothing."""
        return method in SAFE or (method == "POST" and plain_path(path) in self.reading_posts)

    def logged(self, path: str) -> str:
        """The path as the access log may keep it."""
        # As routing reads it: a request that was refused before routing still has its doubled slashes.
        plain = plain_path(path)
        return next((shown for begin, shown in self.private.items() if plain.startswith(begin)), path)


#: Methods that change nothing (RFC 9110, section 9.2.1), of those that are answered here.
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def plain_path(path: str) -> str:
    """The path as routing reads it: doubled slashes and slashes at the end are ignored."""
    return "/" + "/".join(part for part in path.split("/") if part)
