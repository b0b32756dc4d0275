"""Publishes made in this process, told to the lookups open in it: they need not wait for their next look at CURRENT."""

import os
import weakref
from typing import Protocol


class Follower(Protocol):
    """Something that follows what is published in a state directory."""

    def look_soon(self) -> None:
        """Look at CURRENT before the next answer."""


_followers: "weakref.WeakKeyDictionary[Follower, str]" = weakref.WeakKeyDictionary()


def follow(follower: Follower, home: str) -> None:
    """Have ``follower`` told of publishes in ``home`` for as long as it lives."""
    _followers[follower] = os.path.realpath(home)


def published(home: str) -> None:
    """Tell everyone in this process who follows ``home``."""
    where = os.path.realpath(home)
    for follower, followed in list(_followers.items()):
        if followed == where:
            follower.look_soon()
