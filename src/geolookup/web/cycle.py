"""One request and its answer, between a connection and the application: uvicorn's cycle, and what it leaves out."""

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class Cycle(RequestResponseCycle):
    """uvicorn's, and two things that it leaves out about an answer whose length the application does not say.

    HTTP/1.0 has no chunks: there the end of such an answer is the end of the connection. And ``HEAD`` tells that the
    answer to ``GET`` would come in chunks.
    """

    _until_end = False

    async def send(self, message: ASGISendEvent) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start" and not self.response_started:
            headers = message.get("headers", ())
            if all(name.lower() != b"content-length" for name, _ in headers):
                if self.scope["http_version"] == "1.0":
                    self._until_end, self.chunked_encoding = True, False
                elif self.scope["method"] == "HEAD" and message["status"] not in (204, 304):
                    message = {**message, "headers": [*headers, (b"transfer-encoding", b"chunked")]}
        elif message["type"] == "http.response.body" and self._until_end:
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)
