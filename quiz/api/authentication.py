"""The one way to sign in over REST beside a page's session: `Authorization: Bearer TOKEN`."""

from typing import Any

from knox.auth import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed


class BearerAuthentication(TokenAuthentication):
    """knox's tokens; bytes that are no text are a bad token, where knox would break."""

    def authenticate_credentials(self, token: bytes) -> Any:
        if not token.isascii() or b"\x00" in token:
            raise AuthenticationFailed("Invalid token.")
        return super().authenticate_credentials(token)
